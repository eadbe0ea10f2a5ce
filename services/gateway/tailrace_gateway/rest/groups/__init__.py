"""Groups, their lags and offsets over HTTP."""
