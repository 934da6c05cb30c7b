package fault

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestKindsKeepTheirNumbers pins the table: numbers, gRPC codes and exit codes are part of what other processes and scripts rely on.
func TestKindsKeepTheirNumbers(t *testing.T) {
	rows := []struct {
		kind      Kind
		number    int
		grpc      codes.Code
		exit      int
		permanent bool
	}{
		{OK, 0, codes.OK, 0, false},
		{Internal, 1, codes.Internal, 1, false},
		{InvalidProgram, 2, codes.InvalidArgument, 2, true},
		{InvalidArgument, 3, codes.InvalidArgument, 2, true},
		{TypeMismatch, 4, codes.InvalidArgument, 2, true},
		{ShapeMismatch, 5, codes.InvalidArgument, 2, true},
		{NotFound, 6, codes.NotFound, 2, true},
		{Unsupported, 7, codes.Unimplemented, 2, true},
		{Corrupt, 8, codes.DataLoss, 2, true},
		{TooLarge, 9, codes.ResourceExhausted, 2, true},
		{NotFinite, 10, codes.OutOfRange, 1, true},
		{Unavailable, 11, codes.Unavailable, 1, false},
		{DeadlineExceeded, 12, codes.DeadlineExceeded, 1, false},
		{Canceled, 13, codes.Canceled, 130, false},
		{Duplicate, 14, codes.AlreadyExists, 1, false},
		{Stale, 15, codes.FailedPrecondition, 1, false},
		{Foreign, 16, codes.PermissionDenied, 1, true},
		{LostMember, 17, codes.Aborted, 1, false},
		{VerifyFailed, 18, codes.FailedPrecondition, 3, true},
		{Fenced, 19, codes.Aborted, 138, false},
		{Drained, 20, codes.Canceled, 143, false},
		{Superseded, 21, codes.Aborted, 1, false},
		{Denied, 22, codes.Unauthenticated, 2, true},
		{LostState, 23, codes.Aborted, 1, false},
	}
	if len(rows) != len(kinds) {
		t.Fatalf("the table has %d kinds, the test %d", len(kinds), len(rows))
	}
	names := map[string]Kind{}
	for _, r := range rows {
		k := r.kind
		if int(k) != r.number || k.GRPCCode() != uint32(r.grpc) || k.ExitCode() != r.exit || k.Permanent() != r.permanent {
			t.Errorf("%v is number %d, gRPC code %v, exit code %d, permanent %t; want %+v", k, k, codes.Code(k.GRPCCode()), k.ExitCode(), k.Permanent(), r)
		}
		if other, taken := names[k.String()]; taken || k.String() == "" {
			t.Errorf("kind %d is named %q, as is kind %d", int(k), k, int(other))
		}
		names[k.String()] = k
	}
}

func TestAnUnknownKindCountsAsInternal(t *testing.T) {
	for _, k := range []Kind{-1, Kind(len(kinds)), 1 << 30} {
		if k.row() != Internal.row() {
			t.Errorf("kind %d is %v", int(k), k.row())
		}
	}
}

func TestKindOf(t *testing.T) {
	f := E(NotFound, At("train.rec"))
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, OK}, {errors.New("plain"), Internal}, {f, NotFound}, {fmt.Errorf("at step 3: %w", f), NotFound},
		{List{E(Corrupt), f}, Corrupt}, {Stale, Stale}, {E(Internal, Cause(f)), Internal},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("the kind of %v is %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(E(Internal, Cause(f)), NotFound) || errors.Is(f, Corrupt) {
		t.Error("errors.Is finds the wrong kinds")
	}
}
