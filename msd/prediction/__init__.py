"""What a GPU delegate will make of a graph, predicted from the file alone: rules, limits, storage, memory."""
