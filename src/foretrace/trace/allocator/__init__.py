"""What a snapshot of torch's allocator says: lifetimes, categories, the peak, fragments, growth."""
