"""One file per kind of prediction. To add one, write a module with a `KIND`; nothing else changes."""
