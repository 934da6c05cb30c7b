package history_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read returns what a reader of a log is given until the end of it.
func read(l *history.Log[string], mode history.Mode) (string, error) {
	text := ""
	err := l.Read(context.Background(), mode, func(s string) error { text += s; return nil })
	return text, err
}

// Every reader sees all entries in order, whether it comes before, between or after them.
func TestReaders(t *testing.T) {
	l := history.New[string](100)
	got := make(chan string, 3)
	follow := func() {
		text, err := read(l, history.Mode{Follow: true, Strict: true})
		got <- fmt.Sprint(text, err)
	}
	go follow()
	l.Add("a")
	go follow()
	l.Add("b")
	if text, err := read(l, history.Mode{}); text != "ab" || err != nil {
		t.Error(text, err)
	}
	l.End()
	l.End()
	l.Add("c")
	go follow()
	for range 3 {
		if text := <-got; text != "ab<nil>" {
			t.Error(text)
		}
	}
}

// A full log forgets its oldest half; who needs all is told, and who does not goes on.
func TestForgetting(t *testing.T) {
	byNumber := history.New[string](4)
	bySize := history.NewSized(100, 4, func(s string) int { return len(s) })
	for _, s := range []string{"a", "b", "c", "d", "e"} {
		byNumber.Add(s)
		bySize.Add(s)
	}
	for name, l := range map[string]*history.Log[string]{"by number": byNumber, "by size": bySize} {
		if text, err := read(l, history.Mode{}); text != "cde" || err != nil {
			t.Errorf("%s: %s %v", name, text, err)
		}
		if _, err := read(l, history.Mode{Strict: true}); !errors.Is(err, fault.TooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bySize.Add("larger than everything")
	if text, err := read(bySize, history.Mode{}); text != "larger than everything" || err != nil {
		t.Errorf("%s %v", text, err)
	}
	bySize.Add("f")
	bySize.Add("g")
	if text, err := read(bySize, history.Mode{}); text != "fg" || err != nil {
		t.Errorf("%s %v", text, err)
	}
}

func TestReadEnds(t *testing.T) {
	l := history.New[string](4)
	l.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Read(ctx, history.Mode{Follow: true}, func(string) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if err := l.Read(t.Context(), history.Mode{}, func(string) error { return broken }); err != broken {
		t.Error(err)
	}
}
