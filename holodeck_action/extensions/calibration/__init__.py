"""A judge compared with the labels of humans."""
