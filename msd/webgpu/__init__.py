"""Programs for WebGPU: .tflite graphs compiled to kernels of our own, for any WebGPU implementation."""
