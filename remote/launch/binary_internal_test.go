package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// copied is a copy of a command of this system, whose path ends in edl.
func copied(t *testing.T, command string) string {
	t.Helper()
	from, err := exec.LookPath(command)
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "edl")
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// ends starts a role, and returns how it ends.
func ends(l Launcher) error {
	h, err := l.Start(context.Background(), &job.RoleSpec{Job: "digits", Role: job.Role_TRAINER}, io.Discard)
	if err != nil {
		return err
	}
	return h.Wait()
}

// Roles start from a binary as it was when it was opened, where a system can; else they do not start when it is another one. A file that was written to is none to start from.
func TestBinaryStays(t *testing.T) {
	path := copied(t, "true")
	b, err := OpenBinary(filepath.Join(t.TempDir(), "nothing"), path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := Processes{}.from(b)
	if err := ends(l); err != nil || b.Path() != path {
		t.Fatalf("%s: %v", b.Path(), err)
	}
	if err := os.Rename(copied(t, "false"), path); err != nil {
		t.Fatal(err)
	}
	if err := ends(Processes{Binary: path}); err == nil {
		t.Fatal("the file was not replaced")
	}
	err = ends(l)
	if runtime.GOOS == "linux" && err != nil {
		t.Errorf("the binary that was replaced: %v", err)
	}
	if runtime.GOOS != "linux" && !errors.Is(err, fault.Unavailable) {
		t.Errorf("the binary that was replaced: %v", err)
	}

	written := copied(t, "true")
	other, err := OpenBinary(written)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f, err := os.OpenFile(written, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString("more")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	err = ends(Processes{}.from(other))
	for _, want := range []string{"trainer 0 of job digits", written, "another file than the one that the roles of this job have started from", "edl jobs resume"} {
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("a binary that was written to: %v, want %q", err, want)
		}
	}
	if _, err := OpenBinary(t.TempDir(), filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder and nothing: %v", err)
	}
}

// Each run of a keeper has the binary that it began with, whoever asks for another role of it, until it is released.
func TestRunsHaveTheirBinaries(t *testing.T) {
	k := NewKeeper(Processes{Binary: copied(t, "false"), Args: []string{"-"}}, &rpc.KeeperState{})
	defer k.End(errors.New("the test has ended"))
	started := func(run string, start uint32, paths ...string) error {
		t.Helper()
		r, err := k.start(run, &job.RoleSpec{Job: run, Role: job.Role_TRAINER, Start: start}, paths)
		if err != nil {
			return err
		}
		<-r.done
		return r.err
	}
	yes, no := copied(t, "true"), copied(t, "false")
	if err := started("first", 0, yes); err != nil {
		t.Error(err)
	}
	if err := started("first", 1, no); err != nil {
		t.Errorf("another start has another binary: %v", err)
	}
	if err := started("second", 0, no, yes); err == nil {
		t.Error("another run has the binary of the first")
	}
	if err := started("third", 0); err == nil {
		t.Error("a run without a binary has not that of the keeper")
	}
	if err := started("fourth", 0, filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Errorf("a binary that is not there: %v", err)
	}
	letGo := func(run string) {
		t.Helper()
		if _, err := k.Release(t.Context(), &rpc.ReleaseRequest{Run: run, Binary: true}); err != nil {
			t.Error(err)
		}
	}
	letGo("second")
	letGo("nothing")
	if err := started("second", 1, yes); err != nil {
		t.Errorf("a run whose binary was let go: %v", err)
	}
	waits := copied(t, "cat") // until its standard input ends
	r, err := k.start("third", &job.RoleSpec{Job: "third", Role: job.Role_TRAINER, Start: 7}, nil)
	if err == nil {
		<-r.done
		letGo("third")
		r, err = k.start("third", &job.RoleSpec{Job: "third", Role: job.Role_TRAINER, Start: 8}, []string{waits})
	}
	if err != nil {
		t.Fatal(err)
	}
	letGo("third")
	if k.runs["third"].binary == nil {
		t.Error("the binary of a role that runs was let go")
	}
	r.handle.Kill()
	binary := k.runs["first"].binary
	if _, err := k.Release(t.Context(), &rpc.ReleaseRequest{Run: "first"}); err != nil {
		t.Error(err)
	}
	if err := binary.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the binary of a run that was released is open: %v", err)
	}
}
