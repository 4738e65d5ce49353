package launch

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// ReleaseMemory returns to the system the memory that start-up and planning needed and supervision does not: free
// heap, and the pages of the program's own file, most of which only initialisation has touched. Pages needed later
// are read again, as a rule from the page cache. It costs a few milliseconds and never fails: memory that cannot be
// released stays.
func ReleaseMemory() {
	debug.FreeOSMemory()
	if self, err := os.Readlink("/proc/self/exe"); err == nil {
		dropPages(self)
	}
}

// dropPages releases the pages of a file that is mapped for reading or execution. Later accesses load single pages
// instead of 2 MiB where the kernel supports that: supervision does not depend on speed.
func dropPages(file string) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, r := range unchangedPages(maps, file) {
		unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_NOHUGEPAGE)
		// The mapping was never written to, so its pages can be read again from the file.
		unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED)
	}
}

// addresses is a half-open range of memory.
type addresses struct{ start, end uintptr }

// unchangedPages returns from the text of /proc/self/smaps the read-only mappings of a file without a page that
// differs from the file. A page differs where the loader has inserted addresses and then removed the write permission
// (RELRO), or where a debugger has set a breakpoint: the content of such a mapping exists nowhere else, so it is
// excluded.
func unchangedPages(smaps []byte, file string) []addresses {
	var found []addresses
	candidate, have := addresses{}, false
	for line := range bytes.Lines(smaps) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		name, value, _ := bytes.Cut(line, []byte(" "))
		if !bytes.HasSuffix(name, []byte(":")) { // header of a mapping: range, rights, offset, device, inode, path
			candidate, have = mappingOf(line, file)
			continue
		}
		if have && string(name) == "Anonymous:" {
			if fields := bytes.Fields(value); len(fields) > 0 && string(fields[0]) == "0" {
				found = append(found, candidate)
			}
			have = false
		}
	}
	return found
}

// mappingOf parses the header of a mapping; false if it maps another file or is writable.
func mappingOf(line []byte, file string) (addresses, bool) {
	fields := bytes.SplitN(line, []byte(" "), 6)
	if len(fields) < 6 || string(bytes.TrimLeft(fields[5], " ")) != file {
		return addresses{}, false
	}
	rights := string(fields[1])
	if rights != "r-xp" && rights != "r--p" {
		return addresses{}, false
	}
	from, to, _ := bytes.Cut(fields[0], []byte("-"))
	start, err1 := strconv.ParseUint(string(from), 16, 64)
	end, err2 := strconv.ParseUint(string(to), 16, 64)
	if err1 != nil || err2 != nil || end <= start {
		return addresses{}, false
	}
	return addresses{uintptr(start), uintptr(end)}, true
}
