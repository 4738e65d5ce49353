package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mapping returns the smaps text of one mapping in the kernel's format.
func mapping(head string, anonymous int) string {
	return head + "\nSize:              17260 kB\nRss:                9000 kB\nAnonymous:         " + strconv.Itoa(anonymous) + " kB\nVmFlags: rd ex mr mw me\n"
}

func TestUnchangedPages(t *testing.T) {
	const program = "/opt/a b/optimize"
	const text = "00410000-014eb000 r-xp 00010000 fe:00 655 "
	cases := map[string]struct {
		smaps string
		want  []addresses
	}{
		"text":                      {mapping(text+program, 0), []addresses{{0x410000, 0x14eb000}}},
		"padded path":               {mapping(text+"                     "+program, 0), []addresses{{0x410000, 0x14eb000}}},
		"read-only data":            {mapping("014eb000-02478000 r--p 010eb000 fe:00 655 "+program, 0), []addresses{{0x14eb000, 0x2478000}}},
		"relocated, then read-only": {mapping("02478000-02479000 r--p 02078000 fe:00 655 "+program, 4), nil},
		"a breakpoint in the text":  {mapping(text+program, 4), nil},
		"data":                      {mapping("02479000-02630000 rw-p 02079000 fe:00 655 "+program, 0), nil},
		"shared":                    {mapping("00410000-014eb000 r--s 00010000 fe:00 655 "+program, 0), nil},
		"another file":              {mapping(text+"/lib/libc.so.6", 0), nil},
		"a longer name":             {mapping(text+program+" (deleted)", 0), nil},
		"no file":                   {mapping("c000000000-c000400000 rw-p 00000000 00:00 0 ", 0), nil},
		"no range":                  {mapping("zz-yy r-xp 00010000 fe:00 655 "+program, 0), nil},
		"nothing":                   {"", nil},
		"two": {mapping(text+program, 0) + mapping("7f00-7f10 r-xp 00000000 fe:00 9 /lib/libc.so.6", 0) + mapping("014eb000-02478000 r--p 010eb000 fe:00 655 "+program, 0),
			[]addresses{{0x410000, 0x14eb000}, {0x14eb000, 0x2478000}}},
	}
	for name, c := range cases {
		if got := unchangedPages([]byte(c.smaps), program); !slices.Equal(got, c.want) {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

// The process continues with intact data after its own pages are dropped.
func TestReleaseMemory(t *testing.T) {
	kept := strings.Repeat("kept", 1000)
	ReleaseMemory()
	if kept != strings.Repeat("kept", 1000) || strconv.Itoa(12345) != "12345" {
		t.Error("memory has changed")
	}
	if _, err := readStat(os.Getpid()); err != nil {
		t.Error(err)
	}
}

func TestDropPages(t *testing.T) {
	path, content := filepath.Join(t.TempDir(), "mapped"), bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	if !bytes.Equal(mapped, content) { // touches every page
		t.Fatal("the file is not mapped as it was written")
	}
	if before := residentOf(t, path); before == 0 {
		t.Fatal("nothing is resident after all was read")
	}
	dropPages(path)
	if after := residentOf(t, path); after != 0 {
		t.Errorf("%d KiB are still resident", after)
	}
	if !bytes.Equal(mapped, content) {
		t.Error("what comes back is not what the file holds")
	}
}

// residentOf returns the resident memory of a mapped file in this process, in KiB.
func residentOf(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), path)
	_, rest, counted := strings.Cut(rest, "Rss:")
	if !found || !counted {
		t.Fatalf("no resident size of %s in\n%s", path, text)
	}
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
