package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/internal/eventlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read returns what a reader of a log is given from a number on until the end of it: runs of entries that follow each other, with the number of the
// first.
func read(l *eventlog.Log[string], from uint64, follow bool) (string, error) {
	text, next := "", from
	err := l.Read(context.Background(), from, follow, func(number uint64, s string) error {
		if number != next || text == "" {
			text += fmt.Sprint(number)
		}
		text, next = text+s, number+1
		return nil
	})
	return text, err
}

// Every reader sees all entries in order, whether it comes before, between or after them.
func TestReaders(t *testing.T) {
	l := eventlog.New[string](100)
	got := make(chan string, 3)
	follow := func() {
		text, err := read(l, 0, true)
		got <- fmt.Sprint(text, err)
	}
	go follow()
	l.Add("a")
	go follow()
	l.Add("b")
	if text, err := read(l, 0, false); text != "0ab" || err != nil {
		t.Error(text, err)
	}
	l.End()
	l.End()
	l.Add("c")
	go follow()
	for range 3 {
		if text := <-got; text != "0ab<nil>" {
			t.Error(text)
		}
	}
}

// A reader goes on where it is, however often it comes back. One that is ahead of what there is gets what comes.
func TestReadFrom(t *testing.T) {
	l := eventlog.New[string](100)
	for _, s := range []string{"a", "b", "c"} {
		l.Add(s)
	}
	for from, want := range []string{"0abc", "1bc", "2c", "", ""} {
		if text, err := read(l, uint64(from), false); text != want || err != nil {
			t.Errorf("from %d: %q %v, want %q", from, text, err, want)
		}
	}
	got := make(chan string)
	go func() {
		text, err := read(l, 7, true)
		got <- fmt.Sprint(text, err)
	}()
	l.Add("d")
	l.End()
	if text := <-got; text != "3d<nil>" && text != "<nil>" { // it may have come after the end
		t.Error(text)
	}
}

// A full log forgets its oldest half. Whoever has not read it goes on with the oldest that is kept, whose number tells how much it has missed;
// whoever has misses nothing.
func TestForgetting(t *testing.T) {
	byNumber := eventlog.New[string](4)
	bySize := eventlog.NewSized(100, 4, func(s string) int { return len(s) })
	for _, s := range []string{"a", "b", "c", "d", "e"} {
		byNumber.Add(s)
		bySize.Add(s)
	}
	for name, l := range map[string]*eventlog.Log[string]{"by number": byNumber, "by size": bySize} {
		for from, want := range []string{"2cde", "2cde", "2cde", "3de", "4e", ""} {
			if text, err := read(l, uint64(from), false); text != want || err != nil {
				t.Errorf("%s, from %d: %s %v, want %s", name, from, text, err, want)
			}
		}
	}
	bySize.Add("larger than everything")
	if text, err := read(bySize, 0, false); text != "5larger than everything" || err != nil {
		t.Errorf("%s %v", text, err)
	}
	bySize.Add("f")
	bySize.Add("g")
	if text, err := read(bySize, 0, false); text != "6fg" || err != nil {
		t.Errorf("%s %v", text, err)
	}
}

// A reader that is overtaken while it reads misses what was forgotten, and no more.
func TestForgettingUnderAReader(t *testing.T) {
	l := eventlog.New[string](4)
	l.Add("a")
	text := ""
	if err := l.Read(t.Context(), 0, false, func(number uint64, s string) error {
		if text += fmt.Sprint(number, s); s == "a" {
			for _, s := range []string{"b", "c", "d", "e", "f"} {
				l.Add(s)
			}
		}
		return nil
	}); err != nil || text != "0a2c3d4e5f" {
		t.Error(text, err)
	}
}

func TestReadEnds(t *testing.T) {
	l := eventlog.New[string](4)
	l.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Read(ctx, 0, true, func(uint64, string) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if err := l.Read(t.Context(), 0, false, func(uint64, string) error { return broken }); err != broken {
		t.Error(err)
	}
}
