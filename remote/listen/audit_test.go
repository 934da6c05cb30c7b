package listen

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
)

// The audit log goes on where it ended, has lines that no name can forge, and keeps a bounded number of files.
func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	open := func() *audit {
		a, err := openAudit(dir)
		if err != nil {
			t.Fatal(err)
		}
		a.most = 1000
		return a
	}
	written := 0
	for range 2 {
		a := open()
		for range 20 {
			if err := a.write(auditLine{User: "user/eve\n{}\x1b", Method: "Submit", Outcome: "ok", Error: strings.Repeat("x", 2*auditText)}); err != nil {
				t.Fatal(err)
			}
			written++
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != auditFiles {
		t.Fatalf("%v, %v", files, err)
	}
	lines := 0
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 2*auditText {
			t.Errorf("%s has mode %v and %d bytes, %v", name, info.Mode(), info.Size(), err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for in := bufio.NewScanner(f); in.Scan(); lines++ {
			var l auditLine
			if err := json.Unmarshal(in.Bytes(), &l); err != nil || l.User != "user/eve\n{}\x1b" || l.Time.IsZero() || strings.ContainsRune(in.Text(), '\x1b') {
				t.Errorf("%q: %v", in.Text(), err)
			}
		}
	}
	if lines == 0 || lines > written {
		t.Errorf("%d lines of %d are kept", lines, written)
	}
}

// A user can take its share of what a listener has, and leaves the rest to others.
func TestBudgets(t *testing.T) {
	b := &budget{}
	eve, bob, root := caller{user: "eve", access: credential.Viewer}, caller{user: "bob", access: credential.Viewer}, caller{user: "root", access: credential.Admin}
	var leave []func()
	enter := func(c caller) error {
		l, err := b.enter(c)
		if err == nil {
			leave = append(leave, l)
		}
		return err
	}
	for range maxCallsOfUser {
		if err := enter(eve); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter(eve); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), `"eve"`) || !strings.Contains(err.Error(), "at most 512") {
		t.Errorf("one call more of a user: %v", err)
	}
	if err := enter(bob); err != nil {
		t.Errorf("a call of another user: %v", err)
	}
	for len(leave) < maxCalls {
		if err := enter(root); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter(root); !errors.Is(err, fault.TooLarge) {
		t.Errorf("one call more of all: %v", err)
	}
	for _, l := range leave {
		l()
	}
	if b.calls != 0 || len(b.of) != 0 {
		t.Errorf("%d calls and %v are left", b.calls, b.of)
	}

	one, other := upload{of: b}, upload{of: b}
	if err := errors.Join(one.add(maxUploads-5), other.add(5)); err != nil {
		t.Fatal(err)
	}
	if err := other.add(1); !errors.Is(err, fault.TooLarge) {
		t.Errorf("more bytes than there is room for: %v", err)
	}
	one.end()
	if err := other.add(maxUploads - 5); err != nil {
		t.Errorf("room that is free again: %v", err)
	}
	other.end()
	if b.uploads != 0 {
		t.Errorf("%d bytes are left", b.uploads)
	}
}

// The roles of all jobs that run are bounded, and those of one user to half of that.
func TestRolesAreBounded(t *testing.T) {
	m := NewManager(Config{MaxRoles: 20})
	defer m.Close()
	job := func(owner string, trainers, pservers int32) *Job {
		return &Job{owner: owner, done: make(chan struct{}), spec: &job.JobSpec{Trainers: 1, TrainersMax: trainers, Pservers: pservers, Standby: 1}}
	}
	m.jobs["a"] = job("eve", 2, 2) // 1 + 2 + 2 + 2
	for _, c := range []struct {
		owner  string
		access credential.Access
		roles  int32 // beside a coordinator, a pserver and its standby
		good   bool
	}{{"eve", credential.Submitter, 1, false}, {"bob", credential.Submitter, 7, true}, {"bob", credential.Submitter, 8, false},
		{"eve", credential.Admin, 10, true}, {"bob", credential.Admin, 11, false}} {
		err := admitRoles(m, job(c.owner, c.roles, 1), c.access)
		if (err == nil) != c.good || err != nil && (!errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "--max-roles")) {
			t.Errorf("%v: %v", c, err)
		}
	}
	close(m.jobs["a"].done)
	if err := admitRoles(m, job("eve", 7, 1), credential.Submitter); err != nil {
		t.Errorf("after the end of the other job: %v", err)
	}
}
