package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Arguments that look like secrets.
func TestRedact(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"nothing":            {"train.py --epochs 3 --lr=0.1", "train.py --epochs 3 --lr=0.1"},
		"flag with value":    {"--api-key=abc --x 1", "--api-key=[redacted] --x 1"},
		"flag, then value":   {"--token abc --x 1", "--token [redacted] --x 1"},
		"value like a flag":  {"--password -abc", "--password [redacted]"},
		"flag without value": {"--token --x 1", "--token --x 1"},
		"underscores":        {"--hf_token abc --wandb_api_key=abc", "--hf_token [redacted] --wandb_api_key=[redacted]"},
		"setting":            {"wandb.api_key=abc model=x", "wandb.api_key=[redacted] model=x"},
		"variable":           {"env AWS_SECRET_ACCESS_KEY=abc MODEL_DIR=x", "env AWS_SECRET_ACCESS_KEY=[redacted] MODEL_DIR=x"},
		"any key variable":   {"env COMET_KEY=abc", "env COMET_KEY=[redacted]"},
		"hugging face":       {"x hf_abcdefghijklmnopqrstuvwxyz012345", "x [redacted]"},
		"openai":             {"x sk-proj-abcdefghijklmnop_1234", "x [redacted]"},
		"aws":                {"x AKIAIOSFODNN7EXAMPLE", "x [redacted]"},
		"github":             {"x ghp_abcdefghijklmnopqrstuvwxyz0123456789", "x [redacted]"},
		"url":                {"s3 https://me:pass@host/data", "s3 https://[redacted]@host/data"},
		"url without one":    {"x https://host:80/data?a=b@c", "x https://host:80/data?a=b@c"},
		"in a value":         {"--url=https://me:pass@host/", "--url=https://[redacted]@host/"},
		"no secrets":         {"--tokenizer gpt2 --max-tokens 5 --text-key body --sort_key=len --key id", "--tokenizer gpt2 --max-tokens 5 --text-key body --sort_key=len --key id"},
		"models":             {"--model hf_transformer sk-learn keras", "--model hf_transformer sk-learn keras"},
	} {
		if got := strings.Join(Redact(strings.Fields(c.args)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	header := []string{"curl", "-H", "Authorization: Bearer abcdef0123456789"}
	if got := Redact(header); slices.Contains(got, header[2]) || !strings.Contains(got[2], "Bearer [redacted]") {
		t.Errorf("%q", got)
	}
}

// No file of a run that users read or send contains the secret, and the job receives it nevertheless.
func TestSecretsStayOffTheDisk(t *testing.T) {
	t.Parallel()
	c := testCommand(t, "env", "--api-key", "s3cr3t-value")
	j := start(t, testLocal(), c)
	waitEnd(t, j)
	if text := output(t, c.RunDir, stdoutFile); !strings.Contains(text, "s3cr3t-value") {
		t.Fatalf("the job did not get its argument: %q", text)
	}
	files, err := os.ReadDir(c.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v; want none for others", f.Name(), info.Mode(), err)
		}
		if data, err := os.ReadFile(filepath.Join(c.RunDir, f.Name())); err != nil || f.Name() != stdoutFile && strings.Contains(string(data), "s3cr3t-value") {
			t.Errorf("%s holds the secret (%v)", f.Name(), err)
		}
	}
}
