"""The request log (kafka.request.logger): JSON from 2.8 on, text before."""
