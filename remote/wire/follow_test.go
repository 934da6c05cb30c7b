package wire_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// bounded ends a wait that something broken would make endless.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func follow(t *testing.T, ctx context.Context, addresses <-chan string) rpc.ParameterServerClient {
	conn, err := wire.DialFollow(ctx, addresses, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rpc.NewParameterServerClient(conn)
}

// A call waits for an address, goes to it, and waits again while there is none.
func TestFollowWaitsForAddresses(t *testing.T) {
	addresses := make(chan string)
	client := follow(t, t.Context(), addresses)
	for number := uint64(1); number <= 3; number++ {
		answered := make(chan uint64, 1)
		go func() {
			n, err := askAgain(t, client)
			if err != nil {
				t.Error(err)
			}
			answered <- n
		}()
		addresses <- answering(t, number)
		if n := <-answered; n != number {
			t.Fatalf("server %d answered, want %d", n, number)
		}
		addresses <- ""
		addresses <- "" // received when the first one has had its effect
	}
}

// A call at a peer that never answers ends when the address changes.
func TestFollowCutsCallsUnderWay(t *testing.T) {
	for name, second := range map[string]func() string{"to another": func() string { return answering(t, 2) }, "to none": func() string { return "" }} {
		t.Run(name, func(t *testing.T) {
			entered, released := make(chan struct{}), make(chan struct{})
			_, stuck := start(t, &numbered{ask: func() uint64 {
				close(entered)
				<-released
				return 1
			}})
			defer close(released)
			addresses := make(chan string, 1)
			client := follow(t, t.Context(), addresses)
			addresses <- stuck
			failed := make(chan error, 1)
			go func() {
				_, err := ask(bounded(t), client)
				failed <- err
			}()
			<-entered
			addresses <- second()
			if err := <-failed; !errors.Is(err, fault.Unavailable) || !wire.Broken(err) {
				t.Fatalf("the call under way: %v", err)
			}
			if name == "to none" {
				addresses <- answering(t, 2)
			}
			if n, err := askAgain(t, client); n != 2 || err != nil {
				t.Fatalf("server %d answered the retry, %v", n, err)
			}
		})
	}
}

// Addresses may end before the connection: the last one stays.
func TestFollowKeepsTheLastAddress(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addresses := make(chan string)
	client := follow(t, ctx, addresses)
	addresses <- answering(t, 1)
	for _, end := range []func(){func() {}, cancel} {
		end()
		if n, err := ask(bounded(t), client); n != 1 || err != nil {
			t.Fatalf("server %d, %v", n, err)
		}
	}
	closed := make(chan string, 1)
	closed <- answering(t, 2)
	close(closed)
	if n, err := ask(bounded(t), follow(t, t.Context(), closed)); n != 2 || err != nil {
		t.Fatalf("server %d, %v", n, err)
	}
}

// The error of a call without an address says so; with an address it names it.
func TestFollowNamesTheAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	addresses := make(chan string)
	client := follow(t, t.Context(), addresses)
	_, err := ask(ctx, client)
	if !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "not known yet") {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addresses <- l.Addr().String()
	late, cancelLate := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelLate()
	addresses <- l.Addr().String() // received: the one before has been told
	if _, err := ask(late, client); !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Error(err)
	}
}

// A connection can be closed while addresses come.
func TestFollowEndsWithClose(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		addresses := make(chan string)
		conn, err := wire.DialFollow(t.Context(), addresses, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				select {
				case addresses <- []string{"127.0.0.1:1", "127.0.0.1:2", ""}[i%3]:
				case <-ctx.Done():
					return
				}
			}
		}()
		addresses <- "127.0.0.1:3"
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		<-ended
	}
}

// A call without WaitForReady fails as soon as it is known that there is no address, even if no address was ever known. So the caller can report and
// bound the wait.
func TestFollowSaysThatThereIsNoAddress(t *testing.T) {
	addresses := make(chan string)
	client := follow(t, t.Context(), addresses)
	addresses <- ""
	_, err := client.Status(bounded(t), &rpc.StatusRequest{}, grpc.WaitForReady(false))
	if err = wire.FromStatus("pserver", err); !errors.Is(err, fault.Unavailable) {
		t.Errorf("nowhere: %v", err)
	}
}
