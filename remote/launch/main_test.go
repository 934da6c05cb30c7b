package launch_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
)

// Environment of this test binary when it runs as a child.
const (
	behaviourEnv = "EDL_LAUNCH_TEST"    // what the child does
	signalEnv    = "EDL_LAUNCH_SIGNAL"  // the number of the signal by which a child ends
	reportEnv    = "EDL_LAUNCH_REPORT"  // where a grandchild connects, so that its end is seen
	goOn         = "the parent is gone" // what a child says that outlived its spec's pipe
)

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(behaviourEnv); behaviour != "" {
		os.Exit(child(behaviour))
	}
	goleak.VerifyTestMain(m)
}

// children are what roles do in tests of one system.
var children = map[string]func() int{}

// child is what the test binary does as a role.
func child(behaviour string) int {
	if behaviour == "parent" {
		return parent()
	}
	if behaviour == "blind" {
		fmt.Println("did not read")
		return 3
	}
	spec, renewed, lost, err := launch.ChildSpec(os.Stdin)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if do, ok := children[behaviour]; ok {
		return do()
	}
	switch behaviour {
	case "work":
		fmt.Printf("%v is %v %d and has %d bytes\n", os.Args[1:], spec.Role, spec.Index, len(spec.Program))
		fmt.Fprint(os.Stderr, "no end of line")
		return 0
	case "renewed":
		fmt.Println("ready")
		for range 2 {
			m := <-renewed
			fmt.Printf("has %s and %s\n", m.Credentials, m.EtcdCredentials)
		}
		return 0
	case "fail":
		fmt.Println("first line\nout of data")
		return 3
	case "threads":
		fmt.Println(os.Getenv("GOMAXPROCS"))
		return 0
	case "environment":
		for _, variable := range os.Environ() {
			fmt.Println(variable)
		}
		return 0
	case "bounds":
		fmt.Println(os.Getenv("GOMAXPROCS"), os.Getenv("GOMEMLIMIT"))
		return 0
	case "hog": // takes 256 MiB more, and keeps it
		taken := bytes.Repeat([]byte{1}, 256<<20)
		<-lost
		fmt.Println(len(taken))
		return 0
	case "fenced":
		return 138
	case "panic":
		enter(nil)
	case "kill itself":
		number, _ := strconv.Atoi(os.Getenv(signalEnv))
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Signal(syscall.Signal(number))
	case "out of memory":
		size := math.MaxInt >> 17 // more than a machine has, less than a slice may have
		fmt.Println(len(make([]byte, size)))
	case "explain":
		fmt.Fprintln(os.Stderr, "before")
		launch.OpenReporter().Close(fault.E(fault.NotFinite, fault.Op("log"), fault.Var("loss"), fault.Line("net.go:7")))
		return 1
	case "explain at length":
		launch.OpenReporter().Close(fault.New(fault.Corrupt, strings.Repeat("too much to say ", 10_000)))
		return 2
	case "report":
		r := launch.OpenReporter()
		r.Waits([]*job.Wait{{What: "round 7", By: []string{"pserver 1"}, LastError: fmt.Sprint(os.LookupEnv("EDL_REPORT_PIPE"))}})
		fmt.Println("ready")
		<-lost
		return 0
	case "times":
		r := launch.OpenReporter()
		reportTimes(r)
		r.Close(nil)
		return 0
	case "babble": // writes no report where reports go
		number, _ := strconv.Atoi(os.Getenv("EDL_REPORT_PIPE"))
		fmt.Fprintln(os.NewFile(uintptr(number), "reports"), "is it here that I say it?")
	case "orderly":
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("ready")
		<-term
		fmt.Println("drained")
		return 0
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	if address := os.Getenv(reportEnv); address != "" {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return 1
		}
		defer conn.Close()
		fmt.Fprintln(conn, os.Getpid())
	}
	fmt.Println("ready")
	<-lost
	fmt.Println(goOn)
	return 0
}

// parent starts a role and waits until it is killed.
func parent() int {
	if _, err := launched("deaf").Start(context.Background(), trainer(0), os.Stdout); err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

// launched starts this test binary as a child.
func launched(behaviour string) launch.Processes {
	return launch.Processes{Binary: os.Args[0], Env: []string{behaviourEnv + "=" + behaviour}}
}

func trainer(index uint32) *job.RoleSpec {
	return &job.RoleSpec{Job: "digits", Role: job.Role_TRAINER, Index: index}
}

// transcript is a log that a test can wait for.
type transcript chan string

func newTranscript() transcript { return make(transcript, 100) }

func (c transcript) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// until reads lines up to the one that contains text.
func (c transcript) until(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line := <-c:
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			t.Fatalf("no line with %q", text)
		}
	}
}

// rest returns the lines that were written and not read.
func (c transcript) rest() []string {
	var all []string
	for len(c) > 0 {
		all = append(all, <-c)
	}
	return all
}

// enter panics where a map is nil.
func enter(into map[string]int) { into["a"] = 1 }
