package notify

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"trainopt/optimizer/launch"
)

// way is how a message reaches a target.
type way string

const (
	byWebhook way = "webhook" // POST of the message as JSON
	bySlack   way = "slack"   // POST of its text, in the form of Slack's incoming webhooks
	byMail    way = "mail"    // the sendmail program of the system
	byCommand way = "command" // a shell command with the message as JSON on its standard input
)

// Target is a destination of messages. Its text form, which String and JSON use, contains no secret: of a URL only scheme
// and host.
type Target struct {
	way     way
	address string // URL, mail address or command
	// withheld is true for a target that was read from its text form and lacks a part of its address.
	withheld bool
}

// unwritten replaces the parts of a URL that may be secret.
const unwritten = "/[redacted]"

// scheme matches the scheme of a URL.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:(//|[^\s/]+@)`)

// urlPath matches a URL in a command, with its path.
var urlPath = regexp.MustCompile(`(https?://[^/\s'"]+)/[^\s'"]+`)

// Parse converts the text of a --notify option: an http or https URL (one of hooks.slack.com, or with the scheme
// slack+https, receives Slack's form), mailto:ADDRESS, otherwise a shell command.
func Parse(text string) (Target, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Target{}, errors.New("the target of messages is empty: want a URL, mailto:ADDRESS or a command")
	}
	if strings.ContainsRune(text, 0) {
		return Target{}, errors.New("the target of messages contains a NUL byte")
	}
	if address, ok := strings.CutPrefix(text, "mailto:"); ok {
		return parseMail(address)
	}
	if !scheme.MatchString(text) {
		return Target{way: byCommand, address: text}, nil
	}
	u, err := url.Parse(text)
	if err != nil { // its text contains the URL
		return Target{}, errors.New("the URL of the target of messages cannot be parsed")
	}
	t := Target{way: byWebhook, address: text}
	if plain, ok := strings.CutPrefix(u.Scheme, "slack+"); ok {
		u.Scheme = plain
		t = Target{way: bySlack, address: u.String()}
	} else if host := strings.ToLower(u.Hostname()); host == "hooks.slack.com" || host == "hooks.slack-gov.com" {
		t.way = bySlack
	}
	if !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "" {
		return Target{}, fmt.Errorf("target of messages %s://…: want http, https, slack+https, mailto: or a command", u.Scheme)
	}
	return t, nil
}

// parseMail checks a mail address, which becomes a header line.
func parseMail(address string) (Target, error) {
	a, err := mail.ParseAddress(address)
	if err != nil || a.Address != address {
		return Target{}, fmt.Errorf("target of messages mailto:%q: want one address, such as mailto:me@example.com", address)
	}
	return Target{way: byMail, address: address}, nil
}

// String returns the target without the parts that may be secret.
func (t Target) String() string {
	switch t.way {
	case byMail:
		return "mailto:" + t.address
	case byCommand:
		if clean := urlPath.ReplaceAllString(launch.RedactText(t.address), "$1"+unwritten); clean != t.address {
			return clean
		}
		words := strings.Fields(t.address)
		if clean := launch.Redact(words); !slices.Equal(clean, words) {
			return strings.Join(clean, " ")
		}
		return t.address
	}
	u, err := url.Parse(t.address)
	if err != nil {
		return string(t.way)
	}
	text := u.Scheme + "://" + u.Host
	if t.way == bySlack && !strings.HasPrefix(u.Hostname(), "hooks.slack") {
		text = "slack+" + text
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		text += unwritten
	}
	return text
}

// MarshalText returns String: a stored target contains no secret.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the text form. A target that lacks a part of its address is Withheld.
func (t *Target) UnmarshalText(text []byte) error {
	read, err := Parse(string(text))
	if err != nil {
		return err
	}
	read.withheld = strings.Contains(string(text), "[redacted]")
	*t = read
	return nil
}
