"""The files of ncnn, a network's layers as text (.param) and their weights (.bin), read lazily."""
