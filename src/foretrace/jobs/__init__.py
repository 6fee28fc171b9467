"""Jobs of many ranks: each file is reduced by itself, and the parts are joined."""
