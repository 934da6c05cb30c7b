// Command vulnerabilities looks for known vulnerabilities that the code reaches, with govulncheck.
//
//	go -C tools/vulnerabilities run . [-root ../..]
//
// What is known comes from the module golang.org/x/vulndb, which a proxy of Go modules has, or else from vuln.go.dev. Where neither can be reached, the command says so and ends well.
// It fails if the code reaches a vulnerability of a module, and another version of the module mends it. It only tells vulnerabilities of the standard library: another version of Go mends them.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Bounds of what is waited for.
const (
	fetchTime = 90 * time.Second // of the data, and of govulncheck itself
	askTime   = 10 * time.Second
	scanTime  = 20 * time.Minute
)

// site is where the Go project publishes what is known.
const site = "https://vuln.go.dev"

func main() {
	root := flag.String("root", "../..", "the folder of the module that is looked at")
	flag.Parse()
	found, err := run(context.Background(), *root, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "vulnerabilities:", err)
		os.Exit(1)
	case found:
		os.Exit(1)
	}
}

// run tells what it finds, and reports whether something is to be mended.
func run(ctx context.Context, root string, out io.Writer) (found bool, err error) {
	data, err := source(ctx)
	if err == nil {
		_, err = output(ctx, fetchTime, "go", "tool", "-n", "govulncheck") // fetches and builds it
	}
	if err != nil {
		_, err := fmt.Fprintln(out, "skipped, because what is needed cannot be reached:", err)
		return false, err
	}
	b, err := output(ctx, scanTime, "go", "tool", "govulncheck", "-C", root, "-db", data, "-format", "json", "./...")
	if err != nil {
		return false, err
	}
	all, err := parse(bytes.NewReader(b))
	if err != nil {
		return false, err
	}
	return tell(out, all)
}

// source is the URL of the data.
func source(ctx context.Context) (string, error) {
	b, missing := output(ctx, fetchTime, "go", "mod", "download", "-json", "golang.org/x/vulndb@latest")
	if missing == nil {
		var module struct{ Dir string }
		if err := json.Unmarshal(b, &module); err != nil {
			return "", err
		}
		return "file://" + filepath.ToSlash(filepath.Join(module.Dir, "data", "osv")), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodHead, site+"/index/modules.json", nil)
	if err != nil {
		return "", err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", errors.Join(missing, err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return "", errors.Join(missing, fmt.Errorf("%s: %s", site, a.Status))
	}
	return site, nil
}

// output is what a command prints.
func output(ctx context.Context, limit time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &said
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w: %s%s", name, args, err, bytes.TrimSpace(b), bytes.TrimSpace(said.Bytes()))
	}
	return b, nil
}

// standardLibrary is how govulncheck calls the module of the standard library.
const standardLibrary = "stdlib"

// A vulnerability is one that the code reaches.
type vulnerability struct {
	id, summary     string
	module, version string
	fixed           string // the version without it; empty: there is none yet
	from            string // a place in the code
}

// A message is one of govulncheck's, of those that count here.
type message struct {
	OSV *struct {
		ID, Summary string
	}
	Finding *struct {
		OSV   string
		Fixed string `json:"fixed_version"`
		Trace []struct {
			Module, Version, Function string
			Position                  *struct {
				Filename string
				Line     int
			}
		}
	}
}

// parse reads the messages of govulncheck. Of one vulnerability there are findings for the module, for a package, and for each function that is reached; only the last say that it is.
func parse(r io.Reader) ([]vulnerability, error) {
	summaries, found := map[string]string{}, map[string]vulnerability{}
	for d := json.NewDecoder(r); ; {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		f := m.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		v := vulnerability{id: f.OSV, module: f.Trace[0].Module, version: f.Trace[0].Version, fixed: f.Fixed}
		if at := f.Trace[len(f.Trace)-1].Position; at != nil {
			v.from = fmt.Sprintf("%s:%d", at.Filename, at.Line)
		}
		if _, known := found[v.id]; !known {
			found[v.id] = v
		}
	}
	all := slices.SortedFunc(maps.Values(found), func(a, b vulnerability) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.id, b.id))
	})
	for i := range all {
		all[i].summary = summaries[all[i].id]
	}
	return all, nil
}

// tell lists vulnerabilities, and reports whether one of them is to be mended here.
func tell(out io.Writer, all []vulnerability) (found bool, err error) {
	var b bytes.Buffer
	for _, v := range all {
		what := "no version without it yet"
		if v.fixed != "" {
			what = "mended in " + v.fixed
		}
		if v.module == standardLibrary {
			what += ": build with that version of Go"
		} else {
			found = found || v.fixed != ""
		}
		fmt.Fprintf(&b, "%s  %s %s (%s): %s, from %s\n", v.id, v.module, v.version, what, v.summary, v.from)
	}
	fmt.Fprintf(&b, "%d known vulnerabilities are reached\n", len(all))
	_, err = out.Write(b.Bytes())
	return found, err
}
