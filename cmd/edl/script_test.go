package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/proto/rpc"
)

// patience bounds what scripts wait for; it ends soon unless something is broken.
const patience = time.Minute

// await repeats try until it succeeds. The script fails with the last error when it takes longer than patience.
func await(ts *testscript.TestScript, try func() error) {
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %v: %v", patience, err)
		}
	}
}

// until repeats a command until it succeeds and its output matches: until PATTERN edl jobs.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	await(ts, func() error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err
		}
		if !want.MatchString(ts.ReadFile("stdout")) {
			return fmt.Errorf("%v does not match %q", args[1:], args[0])
		}
		return nil
	})
}

// pid puts the process of a role into a variable, as soon as there is one: pid JOB ROLE NAME.
func pid(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, func() error {
		if err := ts.Exec("edl", "jobs", "show", args[0], "--output", "json"); err != nil {
			return err
		}
		for _, r := range details(ts).Status.Roles {
			if roleName(r) == args[1] && r.Pid != 0 {
				ts.Setenv(args[2], fmt.Sprint(r.Pid))
				return nil
			}
		}
		return fmt.Errorf("%s has no process", args[1])
	})
}

// details is what "edl jobs show --output json" has printed last.
func details(ts *testscript.TestScript) *rpc.JobDetails {
	var shown struct{ Job json.RawMessage }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &shown))
	d := &rpc.JobDetails{}
	ts.Check(protojson.Unmarshal(shown.Job, d))
	return d
}

var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

// sendSignal sends a signal to a process: signal KILL $PID.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	s, ok := signals[args[0]]
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if !ok || n <= 1 {
		ts.Fatalf("signal %v", args)
	}
	ts.Check(syscall.Kill(n, s))
}

// gone waits until a process has ended and its parent has heard of it: gone $PID.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	await(ts, func() error {
		if syscall.Kill(n, 0) == nil {
			return fmt.Errorf("process %d goes on", n)
		}
		return nil
	})
}

// waitJob waits until a job of the listener at $ADDRESS is in a state, and puts its name into JOB.
func waitJob(ts *testscript.TestScript, _ bool, args []string) {
	var list struct {
		Jobs []jobRow `json:"jobs"`
	}
	await(ts, func() error {
		ts.Check(ts.Exec("edl", "jobs", "--listener", ts.Getenv("ADDRESS"), "--output", "json"))
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
		for _, j := range list.Jobs {
			if j.State == args[0] {
				ts.Setenv("JOB", j.Job)
				return nil
			}
		}
		return fmt.Errorf("no job is %s: %v", args[0], list.Jobs)
	})
}
