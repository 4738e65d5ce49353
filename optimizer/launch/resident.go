package launch

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// ReleaseMemory gives back to the system what start-up and planning needed and looking after a job does not: free heap, and
// the pages of the program's own file, most of which only initialisation has touched. What is needed again is read
// again, from the page cache as a rule. It costs a few milliseconds, and never fails: what cannot be given back stays.
func ReleaseMemory() {
	debug.FreeOSMemory()
	if self, err := os.Readlink("/proc/self/exe"); err == nil {
		dropPages(self)
	}
}

// dropPages lets go of the pages of a file that is mapped to be read or executed. What is needed again comes page by page
// where the kernel lets us choose, not 2 MiB for the sake of one: speed is not what looking after a job needs.
func dropPages(file string) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, r := range unchangedPages(maps, file) {
		unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_NOHUGEPAGE)
		// The range is one mapping of a file that was never written to, so its pages can be had again from there.
		unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED)
	}
}

// addresses is a range of memory, the end not included.
type addresses struct{ start, end uintptr }

// unchangedPages picks from the text of /proc/self/smaps the mappings of a file that may not be written to and of which no
// page differs from the file. A page does differ where the loader has put addresses in and then taken the right to write
// away (RELRO), or where a debugger has put a breakpoint: such a mapping is left alone, its content is nowhere else.
func unchangedPages(smaps []byte, file string) []addresses {
	var found []addresses
	candidate, have := addresses{}, false
	for line := range bytes.Lines(smaps) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		name, value, _ := bytes.Cut(line, []byte(" "))
		if !bytes.HasSuffix(name, []byte(":")) { // the head of a mapping: range, rights, offset, device, inode, path
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

// mappingOf reads the head of a mapping; false when it is not one of the file, or one that may be written to.
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
