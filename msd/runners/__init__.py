"""Where .tflite files run: in this process, in a child process, on a GPU."""
