package edlcmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/tensor"
)

// A Go program that feeds steps to a cluster loses its listener again and again: while the state is kept, while a fed job has it, and once with all roles. Each next listener goes on with what the
// data folder has, no step is lost or trained twice, and all has the bits of an undisturbed session.
func TestSessionOutlivesListeners(t *testing.T) {
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprintf("spread=%t", spread), func(t *testing.T) {
			sessionOutlivesListeners(t, spread)
		})
	}
}

func sessionOutlivesListeners(t *testing.T, spread bool) {
	c := &struckCluster{t: t, edl: edlFile(t), dir: t.TempDir(), client: &bytes.Buffer{}}
	authority := filepath.Join(t.TempDir(), "authority.pem")
	c.env = append(os.Environ(), "EDL_AUTHORITY="+authority, "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir())
	c.begin(spread) // the roles of the left node are lost
	p := c.parts[0]
	loser := c.parts[len(c.parts)/2]
	own, err := credential.Open(authority)
	if err != nil {
		t.Fatal(err)
	}
	m := testkit.Fed(t, optimizer.Momentum(0.05, 0.9))
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got, err := remote.NewExecutor(p.address, &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}, remote.WithAuthority(own))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	steps, rolesLost := uint64(0), false
	step := func() {
		t.Helper()
		feed := testkit.Batch(t, m.Program, steps, 7)
		losses := map[string][]*tensor.Tensor{}
		if losses["want"], err = want.Run(t.Context(), m.Program, feed, m.Loss); err != nil {
			t.Fatal(err)
		}
		losses["got"], err = got.Run(t.Context(), m.Program, feed, m.Loss)
		if err != nil && rolesLost { // the call that finds it out fails, and counts no step; the next one trains again what the state lacks
			losses["got"], err = got.Run(t.Context(), m.Program, feed, m.Loss)
		}
		if rolesLost = false; err != nil {
			t.Fatalf("step %d: %v\n%s", steps, err, c)
		}
		if !testkit.Same(losses["got"][0], losses["want"][0]) {
			t.Errorf("step %d: loss %s, want %s", steps, testkit.Show(losses["got"][0]), testkit.Show(losses["want"][0]))
		}
		steps++
	}
	save := func() { // which ends the fed job: the state is kept
		t.Helper()
		dir := t.TempDir()
		if err := got.Save(t.Context(), dir, m.Program); err != nil {
			t.Fatalf("Save after %d steps: %v\n%s", steps, err, c)
		}
		if err := testkit.Difference(testkit.Saved(t, dir, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
			t.Errorf("after %d steps: %v", steps, err)
		}
	}
	strike := func(signal syscall.Signal) { // the calls after it wait for the next listener
		t.Helper()
		c.signal(signal, p.cmd.Process.Pid)
		_ = p.cmd.Wait()
		ready := c.start(p)
		t.Cleanup(ready)
	}
	step()
	strike(syscall.SIGKILL)
	step()
	save()
	strike(syscall.SIGKILL)
	step()
	strike(syscall.SIGTERM)
	step()
	c.signal(syscall.SIGKILL, c.keeperOf(loser)) // with which its listener ends
	_ = loser.cmd.Wait()
	ready := c.start(loser)
	t.Cleanup(ready)
	rolesLost = true
	step()
	save()
	strike(syscall.SIGTERM)
	save()
	step()
	if err := got.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(p.folder, "states", "kept")); err != nil || len(left) > 0 {
		t.Errorf("states are left: %v, %v", left, err)
	}
	for _, p := range c.parts {
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(t, p.cmd); code != 130 {
			t.Errorf("the listener at %s has ended with %d: %s", p.address, code, p.said)
		}
	}
}
