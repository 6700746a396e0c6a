# What the cases need beyond a plain Debian, installed above the box, not in it.
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends cron at acl attr e2fsprogs zip unzip lvm2 iptables openssh-client kmod locales iproute2 util-linux patch quota
mkdir -p /srv/salt /srv/pillar /t

# A repository of two small packages in two versions, for what needs upgrades.
build() { # NAME VERSION
	rm -rf /tmp/build && mkdir -p /tmp/build/DEBIAN /tmp/build/etc /tmp/build/usr/share/"$1"
	printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Tries <tries@example.org>\nSection: misc\nPriority: optional\nHomepage: https://example.org\nDescription: package for tries\n It has a file and a setting.\n' "$1" "$2" >/tmp/build/DEBIAN/control
	echo "/etc/$1.conf" >/tmp/build/DEBIAN/conffiles
	echo "$2" >/tmp/build/usr/share/"$1"/version
	echo "setting $2" >/tmp/build/etc/"$1".conf
	find /tmp/build -exec touch -d '2024-01-01 UTC' {} +
	SOURCE_DATE_EPOCH=1704067200 dpkg-deb --root-owner-group -b /tmp/build /srv/repo/"$1"_"$2"_all.deb >/dev/null
}
mkdir -p /srv/repo
for v in 1.0 2.0; do build tryone $v; build trytwo $v; done
cd /srv/repo
for f in *.deb; do
	dpkg-deb -f "$f"
	printf 'Filename: ./%s\nSize: %s\nMD5sum: %s\nSHA256: %s\n\n' "$f" "$(stat -c %s "$f")" "$(md5sum <"$f" | cut -d' ' -f1)" "$(sha256sum <"$f" | cut -d' ' -f1)"
done >Packages
rm -rf /tmp/build

# What must not be run for real leaves a note of how it was called.
for tool in shutdown reboot halt poweroff init telinit hwclock; do
	printf '#!/bin/sh\necho "%s $*" >>/t/called\n' $tool >/usr/local/sbin/$tool
	chmod 755 /usr/local/sbin/$tool
done
