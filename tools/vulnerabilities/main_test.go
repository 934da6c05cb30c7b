package main

import (
	"strings"
	"testing"
)

// Messages of govulncheck, shortened: a vulnerability of a module that is required, one that is reached twice, one of the standard library, and one without a version that mends it.
const messages = `{"config":{"protocol_version":"v1.0.0"}}
{"osv":{"id":"GO-1","summary":"Too much memory"}}
{"osv":{"id":"GO-2","summary":"Never called"}}
{"osv":{"id":"GO-3","summary":"Of Go"}}
{"osv":{"id":"GO-4","summary":"Not mended"}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.org/m","version":"v1.0.0"}]}}
{"finding":{"osv":"GO-2","fixed_version":"v1.1.0","trace":[{"module":"example.org/m","version":"v1.0.0","package":"example.org/m/p"}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.org/m","version":"v1.0.0","function":"F"},{"module":"x","function":"main","position":{"filename":"a.go","line":7}}]}}
{"finding":{"osv":"GO-1","fixed_version":"v1.1.0","trace":[{"module":"example.org/m","version":"v1.0.0","function":"G"},{"module":"x","function":"main","position":{"filename":"a.go","line":9}}]}}
{"finding":{"osv":"GO-3","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","function":"H"}]}}
{"finding":{"osv":"GO-4","trace":[{"module":"example.org/n","version":"v0.1.0","function":"I"}]}}
`

// What the code reaches is told once. Only what another version of a module mends is to be mended here.
func TestWhatIsReachedIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		leave string // lines with it are left out
		found bool
		told  []string
		not   []string
	}{
		"all":            {"none", true, []string{"GO-1  example.org/m v1.0.0 (mended in v1.1.0): Too much memory, from a.go:7\n", "GO-3  stdlib", "GO-4  example.org/n v0.1.0 (no version", "3 known"}, []string{"GO-2", "a.go:9"}},
		"nothing to do":  {`"GO-1"`, false, []string{"mended in v1.26.9: build with that version of Go", "2 known"}, []string{"GO-1"}},
		"nothing at all": {"finding", false, []string{"0 known"}, []string{"GO-"}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines strings.Builder
			for line := range strings.Lines(messages) {
				if !strings.Contains(line, c.leave) {
					lines.WriteString(line)
				}
			}
			all, err := parse(strings.NewReader(lines.String()))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			found, err := tell(&out, all)
			if err != nil || found != c.found {
				t.Errorf("%v, %v: %s", found, err, &out)
			}
			for _, want := range c.told {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it does not tell %q: %s", want, &out)
				}
			}
			for _, no := range c.not {
				if strings.Contains(out.String(), no) {
					t.Errorf("it tells %q: %s", no, &out)
				}
			}
		})
	}
	if _, err := parse(strings.NewReader(`{"finding":`)); err == nil {
		t.Error("half a message is read")
	}
}
