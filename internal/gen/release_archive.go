package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"debug/elf"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tarGzip returns files with their directories, below a prefix, as a compressed archive owned by root.
func tarGzip(files []file, prefix string, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w := tar.NewWriter(zip)
	header := func(name string, kind byte, mode int64, size int) error {
		return w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: int64(size), ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatGNU})
	}
	written := map[string]bool{}
	for _, f := range files {
		name := prefix + f.path
		var parents []string
		for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			parents = append(parents, dir)
		}
		slices.Reverse(parents)
		for _, dir := range parents {
			if !written[dir] {
				written[dir] = true
				shown := dir + "/"
				if strings.HasPrefix(prefix, "./") {
					shown = "./" + shown
				}
				if err := header(shown, tar.TypeDir, 0o755, 0); err != nil {
					return nil, err
				}
			}
		}
		if err := header(name, tar.TypeReg, int64(f.mode), len(f.data)); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := zip.Close()
	return b.Bytes(), err
}

// debianVersion returns a version as Debian compares it: what follows the first hyphen precedes the version itself.
func debianVersion(version string) string { return strings.ReplaceAll(version, "-", "~") }

// debianPackage returns a package in the format of deb(5): an ar archive of two compressed archives.
func debianPackage(r release, v variant, binary string, files []file) ([]byte, error) {
	installed := make([]file, 0, len(files)+1)
	for _, f := range files {
		if strings.HasPrefix(f.path, "share/man/") {
			var b bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
			if _, err := zip.Write(f.data); err != nil {
				return nil, err
			}
			if err := zip.Close(); err != nil {
				return nil, err
			}
			f.path, f.data = f.path+".gz", b.Bytes()
		}
		installed = append(installed, f)
	}
	var size int
	var sums strings.Builder
	for _, f := range installed {
		size += len(f.data)
		fmt.Fprintf(&sums, "%x  usr/%s\n", md5.Sum(f.data), f.path)
	}
	depends := ""
	if v.cgo {
		needed, err := glibcVersion(binary)
		if err != nil {
			return nil, err
		}
		depends = fmt.Sprintf("Depends: libc6 (>= %s)\n", needed)
	}
	control := fmt.Sprintf(`Package: optimize
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
%sRecommends: python3
Section: science
Priority: optional
Description: train models at lower cost without missing deadlines or budgets
 optimize wraps an unmodified training script: it measures the training,
 selects an allocation by preference under a deadline and a budget, enforces
 the limits, and reports predictions and cost.
`, debianVersion(r.version), v.arch, r.maintainer, (size+1023)/1024, depends)
	meta, err := tarGzip([]file{{"control", 0o644, []byte(control)}, {"md5sums", 0o644, []byte(sums.String())}}, "./", r.date)
	if err != nil {
		return nil, err
	}
	data, err := tarGzip(installed, "./usr/", r.date)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", meta}, {"data.tar.gz", data}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, r.date.Unix(), 0, 0, "100644", len(member.data))
		b.Write(member.data)
		if len(member.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), nil
}

// glibcVersion returns the newest version of glibc whose symbols a binary needs, such as "2.34".
func glibcVersion(binary string) (string, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return "", err
	}
	best, text := -1, ""
	for _, library := range needs {
		for _, n := range library.Needs {
			number, ok := strings.CutPrefix(n.Dep, "GLIBC_2.")
			if minor, err := strconv.Atoi(strings.SplitN(number, ".", 2)[0]); ok && err == nil && minor > best {
				best, text = minor, "2."+number
			}
		}
	}
	if best < 0 {
		return "", fmt.Errorf("read %s: no version of glibc", binary)
	}
	return text, nil
}
