package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

func TestChildSpecUntilParentIsLost(t *testing.T) {
	spec := &job.RoleSpec{Job: "digits", Role: job.Role_PSERVER, Index: 2, Program: []byte("program")}
	message, err := encodeSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() { _, _ = w.Write(message) }()
	got, lost, err := ChildSpec(r)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, spec) {
		t.Fatalf("got %v, want %v", got, spec)
	}
	select {
	case <-lost:
		t.Fatal("the parent counts as lost while the pipe is open")
	default:
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-lost
}

func TestChildSpecRefuses(t *testing.T) {
	message, err := encodeSpec(&job.RoleSpec{Job: "digits"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range message {
		if _, _, err := ChildSpec(bytes.NewReader(message[:n])); !errors.Is(err, fault.Corrupt) {
			t.Errorf("cut at %d of %d: %v", n, len(message), err)
		}
	}
	huge := binary.LittleEndian.AppendUint32(nil, MaxSpec+1)
	if _, _, err := ChildSpec(bytes.NewReader(huge)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("%d bytes announced: %v", MaxSpec+1, err)
	}
}

func FuzzChildSpec(f *testing.F) {
	message, err := encodeSpec(&job.RoleSpec{Job: "digits", Role: job.Role_TRAINER, Spec: &job.JobSpec{Trainers: 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add(message[:7])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{1, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		spec, lost, err := ChildSpec(bytes.NewReader(b))
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.TooLarge {
				t.Fatalf("kind %v: %v", k, err)
			}
			return
		}
		<-lost
		again, err := encodeSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := ChildSpec(bytes.NewReader(again)); err != nil || !proto.Equal(back, spec) {
			t.Fatalf("%v comes back as %v: %v", spec, back, err)
		}
	})
}
