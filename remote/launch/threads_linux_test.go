package launch_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A role and all of its threads save wake-ups; the process that starts it does not.
func TestProcessHasTimersWithSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack := func() int {
		n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := slack()
	log := newTranscript()
	h, err := launched("slack").Start(t.Context(), trainer(0), log)
	if err != nil {
		t.Fatal(err)
	}
	if after := slack(); after != before {
		t.Errorf("the thread that starts a role has a slack of %d ns, and had %d", after, before)
	}
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(log.rest(), ""); said != "[4000000 4000000 4000000]\n" {
		t.Errorf("threads of the role have slacks of %s", said)
	}
}

func init() { children["slack"] = printSlack }

// printSlack prints the slack of timers of some threads, which are held until all have told.
func printSlack() int {
	told, all := make(chan int), make(chan struct{})
	const n = 3
	for range n {
		go func() {
			runtime.LockOSThread()
			slack, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
			told <- slack
			<-all
		}()
	}
	var list []int
	for range n {
		list = append(list, <-told)
	}
	close(all)
	fmt.Println(list)
	return 0
}
