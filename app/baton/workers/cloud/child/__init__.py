"""The gateway: the process through which every remote call goes."""
