"""The exceptions that modules raise and catch."""


class SaltException(Exception):
    """The root of Salt's exceptions."""

    def __init__(self, message=""):
        if not isinstance(message, str):
            message = str(message)
        super().__init__(message)
        self.message = self.strerror = message


class SaltClientError(SaltException):
    pass


class SaltMasterError(SaltException):
    pass


class SaltReqTimeoutError(SaltException):
    pass


class SaltRenderError(SaltException):
    pass


class SaltSystemExit(SystemExit):
    def __init__(self, code=0, msg=None):
        super().__init__(msg or code)


class AuthenticationError(SaltException):
    pass


class AuthorizationError(SaltException):
    pass


class MinionError(SaltException):
    pass


class FileserverConfigError(SaltException):
    pass


class FileLockError(SaltException):
    pass


class LoaderError(SaltException):
    pass


class SaltConfigurationError(SaltException):
    pass


class SaltInvocationError(SaltException, TypeError):
    """The arguments make no sense."""


class CommandExecutionError(SaltException):
    """Something went wrong while the function worked."""

    def __init__(self, message="", info=None):
        self.error = str(message)
        self.info = info
        text = self.error
        if info:
            if text:
                text += " " if text[-1] in ".?!" else ". "
            if isinstance(info, dict):
                lines = ["%s:\n    %s" % (key, info[key]) for key in sorted(info, key=str)]
            else:
                lines = ["- %s" % i for i in (info if isinstance(info, (list, tuple)) else [info])]
            text += "Additional info follows:\n\n" + "\n".join(lines)
        super().__init__(text)


class CommandNotFoundError(CommandExecutionError):
    """A program that is needed is missing."""


class ArgumentValueError(CommandExecutionError):
    pass


class TemplateError(SaltException):
    pass


class TimedProcTimeoutError(SaltException):
    pass


class TimeoutError(SaltException):
    pass


class CheckError(SaltException):
    pass


class PkgParseError(SaltException):
    pass


class NotImplemented(SaltException):
    pass


class GitLockError(SaltException):
    pass


class VMwareSaltError(CommandExecutionError):
    pass
