package notify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"trainopt/optimizer/launch"
)

const (
	deliveryLimit = 10 * time.Second // of one message to one target, with its retries
	queueLength   = 64               // messages that wait for a slow target
	maxAttempts   = 3                // to reach a server that refuses connections or is overloaded
	maxRedirects  = 5                // of one request
)

// Sender delivers messages. Its methods are for one goroutine.
type Sender struct {
	queues []chan *Message
	ctx    context.Context
	cancel context.CancelFunc
	left   sync.WaitGroup
	closed bool

	mu       sync.Mutex
	failures []string
}

// NewSender starts a goroutine for each target; withheld targets are left out. Close ends them.
func NewSender(targets []Target) *Sender {
	s := &Sender{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, t := range targets {
		if t.withheld {
			continue
		}
		queue := make(chan *Message, queueLength)
		s.queues = append(s.queues, queue)
		s.left.Go(func() { s.serve(t, queue) })
	}
	return s
}

// Send queues a message for all targets and returns at once. A target whose queue is full misses it.
func (s *Sender) Send(m Message) {
	if s.closed {
		return
	}
	m.Schema = schema
	for _, queue := range s.queues {
		select {
		case queue <- &m:
		default: // the deliveries before it fail or hang, which is reported
		}
	}
}

// Failures returns the failures since the last call: at most one for each target.
func (s *Sender) Failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.failures
	s.failures = nil
	return out
}

// Close waits for the queued deliveries, at most the given time, cancels the others and returns the remaining failures.
func (s *Sender) Close(wait time.Duration) []string {
	if s.closed {
		return nil
	}
	s.closed = true
	for _, queue := range s.queues {
		close(queue)
	}
	timer := time.AfterFunc(wait, s.cancel)
	s.left.Wait()
	timer.Stop()
	s.cancel()
	return s.Failures()
}

// serve delivers the messages of one queue in order.
func (s *Sender) serve(t Target, queue <-chan *Message) {
	failed := false
	for m := range queue {
		ctx, cancel := context.WithTimeout(s.ctx, deliveryLimit)
		err := t.deliver(ctx, m)
		if err != nil && !failed {
			failed = true
			if s.ctx.Err() != nil {
				err = errors.New("no answer before the end of the run")
			} else if ctx.Err() != nil {
				err = fmt.Errorf("no answer within %s", deliveryLimit)
			}
			s.mu.Lock()
			s.failures = append(s.failures, fmt.Sprintf("send message to %s: %v (further failures are not reported)", t, err))
			s.mu.Unlock()
		}
		cancel()
	}
}

// deliver sends one message.
func (t Target) deliver(ctx context.Context, m *Message) error {
	body, err := m.body(t.way)
	if err != nil {
		return err
	}
	switch t.way {
	case byMail:
		return t.mail(ctx, m, body)
	case byCommand:
		return execute(exec.CommandContext(ctx, "sh", "-c", t.address), body)
	}
	for attempt := 1; ; attempt++ {
		retry, err := t.post(ctx, body)
		if err == nil || !retry || attempt == maxAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(attempt) * 500 * time.Millisecond):
		}
	}
}

// client follows no redirect: net/http would continue most of them as a GET without a body, and send the address to another
// host in the header Referer.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// post sends a body to the URL, or to the one on the same host to which that redirects. retry is true if the server cannot
// have processed it. No error contains the URL.
func (t Target) post(ctx context.Context, body []byte) (retry bool, err error) {
	for hops := 0; ; hops++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.address, bytes.NewReader(body))
		if err != nil {
			return false, errors.New("the URL is not valid")
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", "optimize")
		res, err := client.Do(req)
		if err != nil {
			if reason := (*url.Error)(nil); errors.As(err, &reason) {
				err = reason.Err
			}
			return errors.Is(err, syscall.ECONNREFUSED), err
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
		res.Body.Close()
		to, unstated := res.Location()
		switch {
		case res.StatusCode/100 == 2:
			return false, nil
		case res.StatusCode/100 != 3 || unstated != nil:
			return res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable, errors.New("the server answers " + res.Status)
		case hops == maxRedirects || !repeats(res.StatusCode, req.URL, to):
			return false, fmt.Errorf("the server redirects to %s (%s): give that address", Target{way: byWebhook, address: to.String()}, res.Status)
		}
		to.User = cmp.Or(to.User, req.URL.User)
		t.address = to.String()
	}
}

// repeats reports whether a redirect asks for the same request at another address of the host, where what is secret in it
// remains: on the same port, or by TLS.
func repeats(status int, from, to *url.URL) bool {
	same := []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}
	return slices.Contains(same, status) && to.Hostname() == from.Hostname() && (to.Scheme == "https" || to.Scheme == from.Scheme && to.Host == from.Host)
}

// mail passes the message to the sendmail program.
func (t Target) mail(ctx context.Context, m *Message, body []byte) error {
	program, err := sendmail()
	if err != nil {
		return err
	}
	subject := m.title()
	if r := []rune(subject); len(r) > 150 {
		subject = string(r[:150]) + "…"
	}
	head := "To: " + t.address + "\r\nSubject: " + mime.QEncoding.Encode("utf-8", subject) + "\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\nAuto-Submitted: auto-generated\r\n\r\n"
	return execute(exec.CommandContext(ctx, program, "-i", "-t"), append([]byte(head), body...))
}

// sendmail returns the path of the sendmail program.
func sendmail() (string, error) {
	if path, err := exec.LookPath("sendmail"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/sendmail", "/usr/lib/sendmail"} {
		if st, err := os.Stat(path); err == nil && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("this machine has no sendmail program: install one, such as msmtp-mta or postfix")
}

// execute runs a command with an input; at the end of its context it is killed with its children.
func execute(cmd *exec.Cmd, input []byte) error {
	var output lastBytes
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), nil, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if text := strings.TrimSpace(string(output)); text != "" {
			return fmt.Errorf("%w: %s", err, launch.RedactText(strings.ReplaceAll(text, "\n", " ")))
		}
		return err
	}
	return nil
}

// lastBytes keeps the end of what is written to it.
type lastBytes []byte

// Write never fails.
func (b *lastBytes) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	if n := len(*b) - 300; n > 0 {
		*b = append((*b)[:0], (*b)[n:]...)
	}
	return len(p), nil
}

// Check returns a warning about a target to which no message can be sent, empty if none is known: a part of its address
// was not stored, or the machine cannot send mail.
func (t Target) Check() string {
	switch {
	case t.withheld:
		return fmt.Sprintf("no messages to %s: its address may be secret and was not stored (give --notify again)", t)
	case t.way == byMail:
		if _, err := sendmail(); err != nil {
			return fmt.Sprintf("no messages to %s: %v", t, err)
		}
	}
	return ""
}
