"""Pictures from converted files: tokenizer, scheduler, the networks, and the loop that joins them."""
