"""The version that the minion reports."""
import sys

__version__ = sys.modules["__main__"].host.opts.get("saltversion", "3006.0") if hasattr(sys.modules["__main__"], "host") and sys.modules["__main__"].host else "3006.0"
__saltstack_version__ = __version__
