"""Users and groups."""
import getpass
import grp
import os
import pwd


def get_user():
    return pwd.getpwuid(os.geteuid()).pw_name


def get_uid(user=None):
    if user is None:
        return os.geteuid()
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def get_group_list(user, include_default=True):
    try:
        default = pwd.getpwnam(user).pw_gid
    except KeyError:
        return []
    names = {g.gr_name for g in grp.getgrall() if user in g.gr_mem}
    if include_default:
        names.add(grp.getgrgid(default).gr_name)
    return sorted(names)


def get_group_dict(user=None, include_default=True):
    return {n: grp.getgrnam(n).gr_gid for n in get_group_list(user or getpass.getuser(), include_default)}
