package batsim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// TestTranscripts replays recorded messages to each side and compares its replies with the recording. The transcripts
// are HDeepRM's learning experiment under shortest-high_gflops, checked from both sides, and three jobs under FCFS
// with EASY backfilling.
func TestTranscripts(t *testing.T) {
	tree := example(t, "learning")
	three := []order.Job{{ID: 0, Procs: 3, Run: 10, Request: 10, Limit: 20}, {ID: 1, Submit: 1, Procs: 4, Run: 5, Request: 5}, {ID: 2, Submit: 2, Procs: 1, Run: 30, Request: 8, Limit: 7}}
	for name, c := range map[string]struct {
		jobs    []order.Job
		serve   ServeOptions
		forward bool
	}{
		"learning": {learningJobs(), ServeOptions{Tree: tree, Pairs: pairSettings(pairOf("shortest-high_gflops"))}, false},
		"backfill": {three, ServeOptions{Order: "fcfs", Backfill: "easy"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".jsonl")
			if os.Getenv("RECORD") != "" {
				var b bytes.Buffer
				both(t, tree, c.jobs, c.serve, SimulateOptions{ForwardProfiles: c.forward, Conversation: Conversation{Transcript: &b}})
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			lines := readLines(t, path)
			s := &session{options: c.serve, index: map[string]int32{}, more: 1}
			for i := 0; i < len(lines); i += 2 {
				got, err := s.reply([]byte(lines[i]))
				if err != nil || string(got) != lines[i+1] {
					t.Fatalf("line %d: it answers\n%s (%v), want\n%s", i+2, got, err, lines[i+1])
				}
			}
			if err := s.decider.finish(); err != nil {
				t.Error(err)
			}
			h, err := newHost(tree, c.jobs, SimulateOptions{ForwardProfiles: c.forward})
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			h.ask = func(request []byte) ([]byte, error) {
				if at+1 >= len(lines) || string(request) != lines[at] {
					t.Fatalf("line %d: it says\n%s, want\n%s", at+1, request, lines[min(at, len(lines)-1)])
				}
				at += 2
				return []byte(lines[at-1]), nil
			}
			if err := h.run(); err != nil || at != len(lines) {
				t.Errorf("%d of %d lines, error %v", at, len(lines), err)
			}
		})
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// python returns the path of an interpreter with the ZeroMQ library.
func python(t *testing.T) string {
	t.Helper()
	const path = "/usr/bin/python3"
	if err := exec.Command(path, "-c", "import zmq").Run(); err != nil {
		t.Skipf("no python3 with zmq (python3-zmq) is here: %v", err)
	}
	return path
}

// TestOutsideScheduler checks the simulator against a scheduler in Python that uses the ZeroMQ library of Batsim's
// own schedulers.
func TestOutsideScheduler(t *testing.T) {
	tree, jobs := smallTree(), delays(5, 7, 3, 9, 2, 8)
	jobs[3].Procs, jobs[3].Submit, jobs[4].Submit, jobs[5].Submit = 4, 2, 2, 30
	command := exec.CommandContext(t.Context(), python(t), "testdata/fcfs.py")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	got, err := Simulate(t.Context(), "tcp://127.0.0.1:"+strings.TrimSpace(port), tree, jobs, SimulateOptions{Conversation: Conversation{Idle: patient}})
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the scheduler: %v", err)
	}
	want, err := queue.Run(t.Context(), queue.Config{Procs: tree.Cores, Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want, false)
}

// TestOutsideSimulator checks that the decision process replies equally to a simulator that uses the same library.
func TestOutsideSimulator(t *testing.T) {
	path := python(t)
	tree := example(t, "learning")
	endpoint, end := serve(t, ServeOptions{Tree: tree, Pairs: pairSettings(pairOf("shortest-high_gflops"))})
	out, err := exec.CommandContext(t.Context(), path, "testdata/replay.py", endpoint, "testdata/learning.jsonl").Output()
	s := <-end
	if err != nil || s.err != nil {
		t.Fatalf("the simulator: %v; the decision process: %v", err, s.err)
	}
	lines := readLines(t, "testdata/learning.jsonl")
	for i, got := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if got != lines[2*i+1] {
			t.Errorf("answer %d: %s, want %s", i, got, lines[2*i+1])
		}
	}
}

// TestOtherLibrary checks both sides of the socket against another implementation of ZeroMQ in Go.
func TestOtherLibrary(t *testing.T) {
	lines := readLines(t, "testdata/learning.jsonl")
	tree := example(t, "learning")
	t.Run("its requests", func(t *testing.T) {
		endpoint, end := serve(t, ServeOptions{Tree: tree, Pairs: pairSettings(pairOf("shortest-high_gflops"))})
		socket := zmq4.NewReq(short(t, patient))
		defer socket.Close()
		if err := socket.Dial(endpoint); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(lines); i += 2 {
			if err := socket.Send(zmq4.NewMsgString(lines[i])); err != nil {
				t.Fatal(err)
			}
			got, err := socket.Recv()
			if err != nil || string(got.Bytes()) != lines[i+1] {
				t.Fatalf("line %d: %s, %v; want %s", i+2, got.Bytes(), err, lines[i+1])
			}
		}
		if s := <-end; s.err != nil {
			t.Error(s.err)
		}
	})
	t.Run("its answers", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		done := make(chan error, 1)
		go func() { // the library's listener cannot be stopped during a handshake
			conn, err := listener.Accept()
			if err != nil {
				done <- err
				return
			}
			defer conn.Close()
			c, err := zmq4.Open(conn, null{}, zmq4.Rep, nil, true, nil)
			for i := 1; err == nil && i < len(lines); i += 2 {
				if _, err = c.RecvMsg(); err == nil {
					err = c.SendMsg(zmq4.NewMsgFrom(nil, []byte(lines[i])))
				}
			}
			done <- err
		}()
		_, err = Simulate(t.Context(), "tcp://"+listener.Addr().String(), tree, learningJobs(), SimulateOptions{Conversation: Conversation{Idle: patient}})
		if other := <-done; err != nil || other != nil {
			t.Errorf("simulate: %v; the other side: %v", err, other)
		}
	})
}

// null is the library's NULL mechanism, which it does not export.
type null struct{}

func (null) Type() zmq4.SecurityType                       { return zmq4.NullSecurity }
func (null) Encrypt(w io.Writer, data []byte) (int, error) { return w.Write(data) }
func (null) Decrypt(w io.Writer, data []byte) (int, error) { return w.Write(data) }
func (null) Handshake(conn *zmq4.Conn, _ bool) error {
	raw, err := conn.Meta.MarshalZMTP()
	if err != nil {
		return err
	}
	if err := conn.SendCmd(zmq4.CmdReady, raw); err != nil {
		return err
	}
	cmd, err := conn.RecvCmd()
	if err != nil {
		return err
	}
	return conn.Peer.Meta.UnmarshalZMTP(cmd.Body)
}

// strange holds behaviours of invalid peers; each returns when it has finished with the connection.
var strange = map[string]struct {
	act  func(conn net.Conn, as string)
	want string
}{
	"hangs up": {func(net.Conn, string) {}, ""},
	"silent":   {func(c net.Conn, _ string) { io.Copy(io.Discard, c) }, ""},
	"speaks HTTP": {func(c net.Conn, _ string) {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n")
		io.Copy(io.Discard, c)
	}, "does not speak ZeroMQ"},
	"old ZeroMQ": {func(c net.Conn, _ string) {
		c.Write(append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1}, make([]byte, 60)...))
		io.Copy(io.Discard, c)
	}, "ZMTP 3"},
	"encrypts": {func(c net.Conn, _ string) { c.Write(greetingOf("CURVE")); io.Copy(io.Discard, c) }, "CURVE"},
	"publishes": {func(c net.Conn, _ string) {
		c.Write(append(greetingOf("NULL"), "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"...))
		io.Copy(io.Discard, c)
	}, ""},
	"greets wrongly": {func(c net.Conn, _ string) {
		c.Write(append(greetingOf("NULL"), "\x04\x05\x04PING"...))
		io.Copy(io.Discard, c)
	}, "READY"},
	"endless message": {func(c net.Conn, as string) {
		w, _ := handshake(c, as, patient)
		send(w, "\x02\x00\x00\x00\x0f\xff\xff\xff\xff")
	}, "at most"},
	"broken frame":   {func(c net.Conn, as string) { w, _ := handshake(c, as, patient); send(w, "\x80aaaaaaaaa") }, "ZMTP does not know"},
	"no empty frame": {func(c net.Conn, as string) { w, _ := handshake(c, as, patient); send(w, "\x00\x02{}") }, "want an empty one"},
	"half a message": {func(c net.Conn, as string) {
		w, _ := handshake(c, as, patient)
		c.Write([]byte("\x01\x00\x00\x20{"))
		_ = w
	}, "hung up"},
	"garbage": {func(c net.Conn, as string) { w, _ := handshake(c, as, patient); send(w, "\x01\x00\x00\x05hello") }, "invalid character"},
}

func send(w *zmtpConn, bytes string) {
	if w != nil {
		w.conn.Write([]byte(bytes))
		io.Copy(io.Discard, w.conn)
	}
}

func greetingOf(mechanism string) []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], mechanism)
	return g
}

// TestStrangeSchedulers checks that the simulator does not block on invalid peers.
func TestStrangeSchedulers(t *testing.T) {
	for name, c := range strange {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					c.act(conn, "REP")
					conn.Close()
				}
			}()
			_, err = Simulate(short(t, patient), "tcp://"+listener.Addr().String(), smallTree(), delays(1), SimulateOptions{Conversation: Conversation{Idle: time.Second}})
			listener.Close()
			<-done
			if !errors.Is(err, errPeer) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestStrangeSimulators checks that the decision process does not block on invalid peers.
func TestStrangeSimulators(t *testing.T) {
	for name, c := range strange {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint, end := serve(t, ServeOptions{Conversation: Conversation{Idle: time.Second}})
			conn, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			c.act(conn, "REQ")
			conn.Close()
			s := <-end
			if !errors.Is(s.err, errPeer) || !strings.Contains(s.err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", s.err, c.want)
			}
		})
	}
}

// TestNobody checks that an absent peer is awaited for the limit, and at most until the context ends.
func TestNobody(t *testing.T) {
	t.Run("no scheduler", func(t *testing.T) {
		_, err := Simulate(t.Context(), "tcp://127.0.0.1:1", smallTree(), delays(1), SimulateOptions{Conversation: Conversation{Idle: 200 * time.Millisecond}})
		if !errors.Is(err, errPeer) || !strings.Contains(err.Error(), "not there for 200ms") {
			t.Error(err)
		}
	})
	t.Run("no simulator", func(t *testing.T) {
		_, err := Serve(t.Context(), "tcp://127.0.0.1:0", ServeOptions{Conversation: Conversation{Idle: 200 * time.Millisecond}})
		if !errors.Is(err, errPeer) || !strings.Contains(err.Error(), "none came within 200ms") {
			t.Error(err)
		}
	})
	t.Run("interrupted without a scheduler", func(t *testing.T) {
		if _, err := Simulate(short(t, 100*time.Millisecond), "tcp://127.0.0.1:1", smallTree(), delays(1), SimulateOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("interrupted without a simulator", func(t *testing.T) {
		if _, err := Serve(short(t, 100*time.Millisecond), "tcp://127.0.0.1:0", ServeOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("interrupted by who listens", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, err = Simulate(short(t, 100*time.Millisecond), "tcp://"+listener.Addr().String(), smallTree(), delays(1), SimulateOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("the address is taken", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if _, err := Serve(t.Context(), "tcp://"+listener.Addr().String(), ServeOptions{}); err == nil {
			t.Error("no error")
		}
	})
	for _, endpoint := range []string{"", "localhost:28000", "udp://localhost:1", "tcp://localhost", "ipc://"} {
		if _, err := Serve(t.Context(), endpoint, ServeOptions{}); err == nil {
			t.Errorf("serve at %q: no error", endpoint)
		}
		if _, err := Simulate(t.Context(), endpoint, smallTree(), delays(1), SimulateOptions{}); err == nil {
			t.Errorf("simulate at %q: no error", endpoint)
		}
	}
}

// TestAfterAStranger checks that port scans do not prevent the simulator from connecting.
func TestAfterAStranger(t *testing.T) {
	endpoint, end := serve(t, ServeOptions{Order: "fcfs"})
	for _, act := range []func(net.Conn, string){strange["hangs up"].act, func(c net.Conn, _ string) { io.WriteString(c, "GET / HTTP/1.1\r\n") }} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		act(conn, "REQ")
		conn.Close()
	}
	_, err := Simulate(t.Context(), endpoint, smallTree(), delays(1, 2), SimulateOptions{Conversation: Conversation{Idle: patient}})
	if s := <-end; err != nil || s.err != nil {
		t.Errorf("simulate: %v; serve: %v", err, s.err)
	}
}

// TestSilentConnectionsDelayNobody checks that silent connections, before or after the greeting, do not prevent the
// simulator from connecting.
func TestSilentConnectionsDelayNobody(t *testing.T) {
	endpoint, end := serve(t, ServeOptions{Order: "fcfs"})
	for i := range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%10 == 0 {
			if _, err := handshake(conn, "REQ", patient); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := Simulate(t.Context(), endpoint, smallTree(), delays(1, 2), SimulateOptions{Conversation: Conversation{Idle: patient}})
	if s := <-end; err != nil || s.err != nil {
		t.Errorf("simulate: %v; serve: %v", err, s.err)
	}
}

// TestEndpointOfAnAddress checks the conversion of a listener's address to the endpoint for a simulator.
func TestEndpointOfAnAddress(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"ipc:///run/batsim":     &net.UnixAddr{Name: "/run/batsim", Net: "unix"},
		"tcp://127.0.0.1:28000": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 28000},
	} {
		if got := Endpoint(a); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for endpoint, want := range map[string]string{
		"ipc://*":                               "not supported",
		"ipc:///" + strings.Repeat("x", 200):    "at most 107",
		"inproc://batsim":                       "want tcp://host:port or ipc://path",
		"ipc:///tmp/" + strings.Repeat("x", 90): "",
	} {
		err := CheckEndpoint(endpoint, true)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", endpoint, err, want)
		}
	}
}

// TestLocalSocket checks Unix sockets.
func TestLocalSocket(t *testing.T) {
	endpoint := "ipc://" + filepath.Join(t.TempDir(), "batsim")
	done := make(chan error, 1)
	go func() {
		_, err := Serve(t.Context(), endpoint, ServeOptions{Conversation: Conversation{Idle: patient}})
		done <- err
	}()
	_, err := Simulate(t.Context(), endpoint, smallTree(), delays(1), SimulateOptions{Conversation: Conversation{Idle: patient}})
	if other := <-done; err != nil || other != nil {
		t.Errorf("simulate: %v; serve: %v", err, other)
	}
}
