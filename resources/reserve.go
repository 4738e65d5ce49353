package resources

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// choiceWait bounds the wait for other processes that choose.
var choiceWait = time.Second

// reserve calls choose with what is reserved, and reserves its result until release: when a process shows what it has, or none
// will. A reservation is a socket with an abstract name: the kernel lists it to every user and removes it with its process.
// In a network namespace one process at a time chooses from a kind. Where there are no such sockets nothing is reserved.
func reserve(kind string, choose func(reserved []string) []string) (release func()) {
	name := "@optimize/" + kind
	if lock := bind(name, choiceWait); lock != nil {
		defer lock.Close()
	}
	var reserved []string
	sockets, _ := os.ReadFile(procRoot + "/net/unix")
	for line := range strings.Lines(string(sockets)) {
		if _, what, ok := strings.Cut(line, " "+name+"/"); ok {
			reserved = append(reserved, what[:max(strings.LastIndexByte(what, '/'), 0)])
		}
	}
	var held []*net.UnixConn
	for _, what := range choose(reserved) {
		if s := bind(name+"/"+what+"/"+rand.Text(), 0); s != nil {
			held = append(held, s)
		}
	}
	return func() {
		for _, s := range held {
			s.Close()
		}
	}
}

// bind returns a socket that has a name, once no other has it; nil if that is not possible.
func bind(name string, wait time.Duration) *net.UnixConn {
	for end := time.Now().Add(wait); ; time.Sleep(2 * time.Millisecond) {
		s, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
		if !errors.Is(err, unix.EADDRINUSE) || !time.Now().Before(end) {
			return s
		}
	}
}
