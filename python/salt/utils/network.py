"""Addresses."""
import ipaddress
import socket


def is_ip(ip):
    try:
        ipaddress.ip_address(ip)
        return True
    except ValueError:
        return False


def is_ipv4(ip):
    return is_ip(ip) and ipaddress.ip_address(ip).version == 4


def is_ipv6(ip):
    return is_ip(ip) and ipaddress.ip_address(ip).version == 6


is_ip_addr, is_ipv4_addr, is_ipv6_addr = is_ip, is_ipv4, is_ipv6


def get_fqhostname():
    return socket.getfqdn()


def get_hostname():
    return socket.gethostname()


def host_to_ips(host):
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(host, None)})
    except OSError:
        return None


def in_subnet(cidr, addr=None):
    net = ipaddress.ip_network(cidr, strict=False)
    return addr is not None and ipaddress.ip_address(addr) in net
