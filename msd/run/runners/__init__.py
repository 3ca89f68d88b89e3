"""Run .tflite files: in this process, in a child process, on a GPU, on a phone."""
