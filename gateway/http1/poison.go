package http1
