package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/proto/rpc"
)

// patience bounds what scripts wait for; it ends soon unless something is broken.
const patience = time.Minute

// until repeats a command until it succeeds and its output matches: until PATTERN edl jobs.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v never matches %q: %v", args[1:], args[0], err)
		}
	}
}

// pid puts the process of a role into a variable, as soon as there is one: pid JOB ROLE NAME.
func pid(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if ts.Exec("edl", "jobs", "show", args[0], "--output", "json") != nil {
			continue
		}
		for _, r := range details(ts).Status.Roles {
			if roleName(r) == args[1] && r.Pid != 0 {
				ts.Setenv(args[2], fmt.Sprint(r.Pid))
				return
			}
		}
	}
	ts.Fatalf("%s has no process", args[1])
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
	for deadline := time.Now().Add(patience); syscall.Kill(n, 0) == nil; {
		if time.Now().After(deadline) {
			ts.Fatalf("process %d goes on", n)
		}
	}
}

// waitJob waits until a job of the listener at $ADDRESS is in a state, and puts its name into JOB.
func waitJob(ts *testscript.TestScript, _ bool, args []string) {
	var list struct {
		Jobs []jobRow `json:"jobs"`
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ts.Check(ts.Exec("edl", "jobs", "--listener", ts.Getenv("ADDRESS"), "--output", "json"))
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
		for _, j := range list.Jobs {
			if j.State == args[0] {
				ts.Setenv("JOB", j.Job)
				return
			}
		}
	}
	ts.Fatalf("no job is %s: %v", args[0], list.Jobs)
}
