"""Pictures from converted files: tokenizer, scheduler, the three components, and the loop that joins them."""
