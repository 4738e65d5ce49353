package launch

import (
	"regexp"
	"strings"
)

// redacted replaces a secret.
const redacted = "[redacted]"

// secretWords matches the last words of the name of a flag, a setting, a variable, a header or a field whose value is a
// secret. A bare "key" is excluded: most such arguments name a column.
const secretWords = `(?:(?:api|access|secret|private|account|service|license|auth|ssh|encryption|shared[-_]?access|wandb|hf|openai|comet|neptune|aws|azure|gcp)[-_]?key|` +
	`(?:(?:access|auth|refresh|client|hf|hub)[-_]?)?(?:token|secret)|password|passwd|pwd|passphrase|credentials?|bearer|auth|cookie|jwt|(?:shared[-_]?access[-_]?)?signature)`

// secretName matches such a name as a whole.
var secretName = regexp.MustCompile(`(?i)^([\w.+/-]*[-_.+/])?` + secretWords + `$`)

// assignment matches a name and its secret within a text: a parameter of a URL, a header, a field of JSON or of a
// connection string, a variable or a flag of a shell command.
var assignment = regexp.MustCompile(`(?i)((?:[?&]sig|(?:^|[^a-z0-9])(?:` + secretWords + `|authorization)|(?-i:[A-Z0-9_]*_KEY))["']?\s*[=:]\s*["']?(?:(?:bearer|basic|token)\s+)?|` +
	`(?:^|\s)--?(?:[a-z0-9._-]*[-_.])?` + secretWords + `\s+["']?)([^\s"'&;,-][^\s"'&;,]*)`)

// secretVariable matches the name of an environment variable whose value is a secret.
var secretVariable = regexp.MustCompile(`^([A-Z0-9_]*_)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$`)

// secretValue matches secrets of a known form, wherever they occur.
var secretValue = regexp.MustCompile(`\bhf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9_-]{16,}|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|` +
	`\bglpat-[A-Za-z0-9_-]{16,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAIza[A-Za-z0-9_-]{30,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`)

// userInfo matches the user and password of a URL.
var userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/@\s:]*:[^/@\s]*@`)

// bearer matches an authorisation header.
var bearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)

// Redact returns arguments in the form in which they may be stored and shown: values that look like secrets, by the
// name of their flag, setting or variable (--api-key X, --password=X, wandb.api_key=X, HF_TOKEN=X) or by their own
// form (hf_…, sk-…, AKIA…, https://user:password@…), are replaced, also within an argument (a URL, a header, JSON, a
// shell command).
func Redact(args []string) []string {
	out := make([]string, len(args))
	next := false // the previous argument was the name of a secret
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		bare := strings.TrimLeft(name, "-")
		switch {
		case next && !strings.HasPrefix(arg, "--"):
			out[i], next = redacted, false
			continue
		case assigned && value != "" && (secretName.MatchString(bare) || bare == name && secretVariable.MatchString(name)):
			out[i] = name + "=" + redacted
		default:
			out[i] = RedactText(arg)
		}
		next = !assigned && bare != name && secretName.MatchString(bare)
	}
	return out
}

// RedactText replaces in a text what has the name or the form of a secret.
func RedactText(text string) string {
	text = secretValue.ReplaceAllString(text, redacted)
	text = assignment.ReplaceAllString(text, "${1}"+redacted)
	text = bearer.ReplaceAllString(text, "$1 "+redacted)
	return userInfo.ReplaceAllString(text, "${1}"+redacted+"@")
}
