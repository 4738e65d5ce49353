package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/cost"
)

// Bounds of a download: its time, and the size of a compressed list.
const (
	fetchTimeout = 2 * time.Minute
	maxFetch     = 64 << 20
)

// fetched returns the path of a price list that is named by a path or a URL, and a function that deletes the downloaded
// copy. The name and the source of a downloaded list default to its URL without the query, which may contain a key.
func fetched(e *cli.Env, name string, o *cost.ImportOptions) (file string, done func(), err error) {
	if !strings.HasPrefix(name, "http://") && !strings.HasPrefix(name, "https://") {
		if file = strings.TrimPrefix(name, "file://"); strings.Contains(file, "://") {
			return "", nil, fmt.Errorf("import prices from %s: want http, https or a file", name)
		}
		return e.Path(file), func() {}, nil
	}
	address, err := url.Parse(name)
	if err != nil {
		return "", nil, fmt.Errorf("download prices: %w", err)
	}
	public := *address
	public.RawQuery, public.Fragment, public.User = "", "", nil
	ctx, stop := e.UntilSignal()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	file, err = download(ctx, name)
	if err != nil {
		return "", nil, fmt.Errorf("download prices from %s: %w", &public, err)
	}
	o.Name = path.Base(public.Path)
	o.Source = cmp.Or(o.Source, public.String())
	return file, func() { _ = os.Remove(file) }, nil
}

// download stores the body of a response in a temporary file.
func download(ctx context.Context, address string) (file string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if reason := (*url.Error)(nil); errors.As(err, &reason) {
			err = reason.Err // without the address, which the caller names
		}
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answers %s", response.Status)
	}
	f, err := os.CreateTemp("", "prices-*")
	if err != nil {
		return "", err
	}
	n, err := io.Copy(f, io.LimitReader(response.Body, maxFetch+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil && n > maxFetch {
		err = fmt.Errorf("more than %d MiB", maxFetch>>20)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}
