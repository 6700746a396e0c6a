// Grains: processor, memory, firmware, graphics, and whether the box is a
// virtual one.
package main

import (
	"context"
	"os"
	"regexp"
	"strings"
)

// cpuGrains reads /proc/cpuinfo.
func (b *grainBox) cpuGrains(context.Context) *Map {
	n, model, flags := int64(0), any("Unknown"), &List{}
	for _, line := range b.lines("/proc/cpuinfo") {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		v, _, _ = strings.Cut(v, ":")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		switch k {
		case "processor":
			n++
		case "# processors":
			n = leadingInt(v)
		case "vendor_id", "model name", "cpu":
			model = v
		case "flags", "Features":
			flags = Strings(strings.Fields(v))
		case "Processor":
			v, _, _ = strings.Cut(v, "-")
			model, n = v, 1
		}
	}
	return NewMap("num_cpus", n, "cpu_model", model, "cpu_flags", flags)
}

// memoryGrains are sizes in MiB.
func (b *grainBox) memoryGrains(context.Context) *Map {
	m := NewMap("mem_total", int64(0), "swap_total", int64(0))
	for _, line := range b.lines("/proc/meminfo") {
		k, v, _ := strings.Cut(line, ":")
		switch k {
		case "MemTotal":
			m.Set("mem_total", leadingInt(v)/1024)
		case "SwapTotal":
			m.Set("swap_total", leadingInt(v)/1024)
		}
	}
	return m
}

// gpuGrains lists graphics cards, by lspci, which knows their names.
func (b *grainBox) gpuGrains(ctx context.Context) *Map {
	gpus := &List{}
	m := NewMap("num_gpus", int64(0), "gpus", gpus)
	off := func(name string) bool { return b.opts.Has(name) && b.opts.Value(name) == false }
	if off("enable_lspci") || off("enable_gpu_grains") {
		return m
	}
	for _, device := range strings.Split(b.program(ctx, "lspci", "-vmm"), "\n\n") {
		fields := map[string]string{}
		for _, line := range strings.Split(device, "\n") {
			if k, v, ok := strings.Cut(line, ":"); ok {
				fields[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
		}
		switch strings.ToLower(fields["Class"]) {
		case "3d controller", "display controller", "processing accelerators", "vga compatible controller":
		default:
			continue
		}
		vendor := "unknown"
		words := " " + regexp.MustCompile(`[^a-z0-9]`).ReplaceAllString(strings.ToLower(fields["Vendor"]), " ") + " "
		for _, name := range []string{"nvidia", "amd", "ati", "intel", "cirrus logic", "vmware", "matrox", "aspeed"} {
			if strings.Contains(words, " "+name+" ") && name != "cirrus logic" {
				vendor = name
				break
			}
		}
		gpus.Append(NewMap("vendor", vendor, "model", fields["Device"]))
	}
	m.Set("num_gpus", int64(gpus.Len()))
	return m
}

// hardwareGrains reads what the firmware says of the box.
func (b *grainBox) hardwareGrains(context.Context) *Map {
	m := &Map{}
	if b.exists("/proc/device-tree") {
		read := func(name string) string {
			return strings.TrimRight(b.read("/proc/device-tree/"+name), "\x00")
		}
		if model := read("model"); model != "" {
			maker, product, ok := strings.Cut(model, ",")
			if ok {
				m.Set("manufacturer", maker)
				m.Set("productname", product)
			} else {
				m.Set("productname", model)
			}
		}
		for _, name := range []string{"system-id", "serial-number"} {
			if v := read(name); v != "" {
				m.Set("serialnumber", v)
			}
		}
	}
	for _, f := range [][2]string{{"biosversion", "bios_version"}, {"biosvendor", "bios_vendor"}, {"boardname", "board_name"},
		{"productname", "product_name"}, {"manufacturer", "sys_vendor"}, {"biosreleasedate", "bios_date"},
		{"uuid", "product_uuid"}, {"serialnumber", "product_serial"}} {
		p, err := os.ReadFile(b.at("/sys/class/dmi/id/" + f[1]))
		if err != nil {
			continue
		}
		text, _ := decodeText(p, "")
		if text = strings.TrimSpace(text); f[0] == "uuid" {
			text = strings.ToLower(text)
		}
		m.Set(f[0], text)
	}
	return m
}

// virtualGrains are virtual and virtual_subtype.
func (b *grainBox) virtualGrains(ctx context.Context) *Map {
	kind, sub := b.detectVirtual(ctx)
	if b.root == "" {
		here, err1 := os.Stat("/")
		init, err2 := os.Stat("/proc/1/root/.")
		if err1 == nil && err2 == nil && !os.SameFile(here, init) {
			sub = "chroot"
		}
	}
	switch {
	case b.exists("/proc/vz/version"):
		kind = "openvzhn"
	case b.exists("/proc/vz/veinfo"):
		kind = "openvzve"
	}
	if m := regexp.MustCompile(`(?m)^envID:\s+(\d+)$`).FindStringSubmatch(b.read("/proc/self/status")); m != nil {
		if kind = "openvzve"; m[1] == "0" {
			kind = "openvzhn"
		}
	}
	if b.exists("/proc/sys/xen") || b.exists("/sys/bus/xen") || b.exists("/proc/xen") {
		if s := b.xenKind(); s != "" {
			sub = s
		}
		if strings.Contains(strings.ToLower(sub), "dom") {
			kind = "xen"
		}
	}
	if strings.Contains(b.read("/proc/cpuinfo"), "QEMU Virtual CPU") {
		kind = "kvm"
	}
	product := b.read("/sys/devices/virtual/dmi/id/product_name")
	for _, p := range [][3]string{{"VirtualBox", "VirtualBox", ""}, {"RHEV Hypervisor", "kvm", "rhev"}, {"oVirt Node", "kvm", "ovirt"}, {"Google", "gce", ""}, {"BHYVE", "bhyve", ""}} {
		if strings.Contains(product, p[0]) {
			if kind = p[1]; p[2] != "" {
				sub = p[2]
			}
			break
		}
	}
	cgroup := b.read("/proc/1/cgroup")
	switch {
	case strings.Contains(cgroup, ":/lxc/"):
		kind, sub = "container", "LXC"
	case strings.Contains(cgroup, ":/kubepods/"):
		sub = "kubernetes"
	case strings.Contains(cgroup, ":/libpod_parent/"):
		sub = "libpod"
	case strings.Contains(cgroup, ":/system.slice/docker"), strings.Contains(cgroup, ":/docker/"), strings.Contains(cgroup, ":/docker-ce/"):
		kind, sub = "container", "Docker"
	}
	if sub != "LXC" && strings.Contains(b.read("/proc/1/environ"), "container=lxc") {
		kind, sub = "container", "LXC"
	}
	if sub != "" && kind == "physical" {
		kind = "virtual"
	}
	if kind == "kvm" || kind == "qemu" || kind == "xen" {
		if maker := strings.TrimSpace(b.read("/sys/class/dmi/id/sys_vendor")); maker == "Amazon EC2" {
			if kind != "xen" {
				kind = "Nitro"
			}
			sub = "Amazon EC2"
			if name := strings.TrimSpace(b.read("/sys/class/dmi/id/product_name")); name != "" {
				sub = "Amazon EC2 (" + name + ")"
			}
		}
	}
	m := NewMap("virtual", kind)
	if sub != "" {
		m.Set("virtual_subtype", sub)
	}
	if strings.Contains(kind, "xen") && b.exists("/sys/hypervisor/version/major") {
		var parts [3]string
		for i, name := range []string{"major", "minor", "extra"} {
			parts[i] = strings.TrimSpace(b.read("/sys/hypervisor/version/" + name))
		}
		m.Set("virtual_hv_version", parts[0]+"."+parts[1]+parts[2])
		m.Set("virtual_hv_version_info", Strings(parts[:]))
	}
	return m
}

// detectVirtual asks systemd-detect-virt where it is installed, and reads what
// it reads where not.
func (b *grainBox) detectVirtual(ctx context.Context) (kind, sub string) {
	found := b.program(ctx, "systemd-detect-virt")
	if found == "" && b.which("systemd-detect-virt") == "" || b.run == nil {
		found = b.virtualByFiles()
	}
	switch {
	case found == "qemu", found == "kvm", found == "oracle", found == "xen", found == "bochs", found == "chroot", found == "uml", found == "systemd-nspawn":
		return found, ""
	case strings.Contains(found, "vmware"):
		return "VMware", ""
	case strings.Contains(found, "microsoft"):
		return "VirtualPC", ""
	case strings.Contains(found, "lxc"):
		return "container", "LXC"
	case strings.Contains(found, "podman"):
		return "container", "Podman"
	case strings.Contains(found, "docker"):
		return "container", "Docker"
	case strings.Contains(found, "amazon"):
		return "Nitro", "Amazon EC2"
	case found == "parallels":
		return "Parallels", ""
	case found == "bhyve":
		return "bhyve", ""
	}
	return "physical", ""
}

// virtualByFiles names the container or hypervisor by the words of
// systemd-detect-virt; "" is none.
func (b *grainBox) virtualByFiles() string {
	for _, v := range strings.Split(b.read("/proc/1/environ"), "\x00") {
		if name, ok := strings.CutPrefix(v, "container="); ok && name != "" {
			return name
		}
	}
	switch {
	case b.exists("/.dockerenv"):
		return "docker"
	case b.exists("/run/.containerenv"):
		return "podman"
	}
	if name := strings.TrimSpace(b.read("/run/systemd/container")); name != "" {
		return name
	}
	dmi := ""
	for _, name := range []string{"product_name", "sys_vendor", "board_vendor", "bios_vendor"} {
		dmi += b.read("/sys/class/dmi/id/"+name) + "\n"
	}
	for _, v := range [][2]string{{"KVM", "kvm"}, {"OpenStack", "kvm"}, {"Amazon EC2", "amazon"}, {"QEMU", "qemu"}, {"VMware", "vmware"},
		{"VMW", "vmware"}, {"innotek GmbH", "oracle"}, {"VirtualBox", "oracle"}, {"Oracle Corporation", "oracle"}, {"Xen", "xen"}, {"Bochs", "bochs"},
		{"Parallels", "parallels"}, {"BHYVE", "bhyve"}, {"SeaBIOS", "kvm"}, {"Google", "kvm"}} {
		if strings.Contains(dmi, v[0]) {
			return v[1]
		}
	}
	if strings.Contains(dmi, "Microsoft Corporation") && strings.Contains(dmi, "Virtual Machine") {
		return "microsoft"
	}
	return strings.TrimSpace(b.read("/sys/hypervisor/type"))
}

// xenKind says what kind of domain this is, "" if it cannot be told.
func (b *grainBox) xenKind() string {
	switch {
	case b.exists("/proc/xen/xsd_kva"):
		return "Xen Dom0"
	case strings.TrimSpace(b.read("/sys/class/dmi/id/product_name")) == "HVM domU":
		return "Xen HVM DomU"
	case b.exists("/proc/xen/capabilities"):
		if strings.Contains(b.read("/proc/xen/capabilities"), "control_d") {
			return "Xen Dom0"
		}
		return "Xen PV DomU"
	case b.exists("/sys/bus/xen/drivers/xenconsole"):
		return "Xen PV DomU"
	}
	return ""
}
