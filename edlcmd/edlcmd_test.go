package edlcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// noLauncher starts nothing.
type noLauncher struct{}

func (noLauncher) Start(context.Context, *job.RoleSpec, io.Writer) (launch.Handle, error) {
	return nil, errors.New("nothing is started")
}

// A launcher of another module is chosen by name; without one there is no flag.
func TestLaunchersAreChosenByName(t *testing.T) {
	help := func(options ...Option) string {
		t.Helper()
		var out, failed bytes.Buffer
		if code := run(t.Context(), []string{"listen", "--help"}, strings.NewReader(""), &out, &failed, options...); code != 0 {
			t.Fatal(code, failed.String())
		}
		return out.String()
	}
	if text := help(); strings.Contains(text, "--launcher") {
		t.Errorf("without a launcher to choose:\n%s", text)
	}
	if text := help(WithLauncher("none", noLauncher{})); !strings.Contains(text, "--launcher processes|none") {
		t.Errorf("with one:\n%s", text)
	}
	s := &settings{}
	WithLauncher("none", noLauncher{})(s)
	for name, want := range map[string]bool{"processes": false, "none": true} {
		l, err := s.launcherOf(&choice{value: name}, "edl", cluster.Access{})
		if err != nil {
			t.Fatal(err)
		}
		if _, got := l.(noLauncher); got != want {
			t.Errorf("%s is %T", name, l)
		}
	}
}
