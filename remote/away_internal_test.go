package remote

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An outage is told once for all calls of a client, and its end as soon as a listener answers one of them. A call that the outage has broken tells no other one.
func TestOutageIsToldOnce(t *testing.T) {
	var told []string
	c := &Client{address: "listener here", durable: true}
	c.notice = func(text string) { told = append(told, text) }
	broken := status.Error(codes.Unavailable, "the connection broke")
	tries := func(ends ...error) func(bool) (stop, err error) {
		return func(bool) (_, err error) {
			err, ends = ends[0], ends[1:]
			return nil, err
		}
	}
	err := follow(context.Background(), c, func(first bool) (stop, err error) {
		if !first {
			c.away.answered(c)
			told = append(told, "event 2")
			return nil, nil
		}
		c.away.answered(c)
		told = append(told, "event 1")
		if err := follow(context.Background(), c, tries(broken, broken, nil)); err != nil {
			t.Error(err)
		}
		return nil, broken
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := follow(context.Background(), c, tries(broken, nil)); err != nil {
		t.Fatal(err)
	}
	for i, text := range told {
		told[i], _, _ = strings.Cut(text, ";")
	}
	away, back := "listener here does not answer", "listener here is there again"
	if want := []string{"event 1", away, back, "event 2", away, back}; !slices.Equal(told, want) {
		t.Errorf("got %q\nwant %q", told, want)
	}
}
