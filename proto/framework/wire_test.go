package framework_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/framework"
)

func TestDimensionsAreWrittenOneTagEachAndReadPackedToo(t *testing.T) {
	shape := &framework.VarType_TensorDesc{
		DataType: framework.VarType_FP32.Enum(),
		Dims:     []int64{2, 3},
	}
	const unpacked, packed = "080510021003", "080512020203"
	if got := hex.EncodeToString(encode(t, shape)); got != unpacked {
		t.Errorf("encoded to %s, want %s", got, unpacked)
	}
	for _, wire := range []string{unpacked, packed} {
		got := new(framework.VarType_TensorDesc)
		if err := proto.Unmarshal(unhex(t, wire), got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, shape) {
			t.Errorf("%s decoded to %v, want %v", wire, got, shape)
		}
	}
}

func TestEveryGenerationsProgramFieldsAreRead(t *testing.T) {
	tests := []struct {
		generation string
		wire       string
		want       *framework.ProgramDesc
	}{
		{"B", "1202 0800", &framework.ProgramDesc{
			LegacyVersion: &framework.Version{Version: proto.Int64(0)},
		}},
		{"C", "1a13 0a0a 0a016d 1205 0a0131 1000 1205 312e362e30 2204 08b1b33d", &framework.ProgramDesc{
			OpCompatibleMap: &framework.OpCompatibleMap{
				Pair: []*framework.OpCompatibleMap_OpCompatiblePair{{
					OpName: proto.String("m"),
					CompatibleInfo: &framework.CompatibleInfo{
						Version: proto.String("1"),
						Type:    framework.CompatibleInfo_COMPATIBLE.Enum(),
					},
				}},
				DefaultRequiredVersion: proto.String("1.6.0"),
			},
			Version: &framework.Version{Version: proto.Int64(1006001)},
		}},
		{"D", "2204 08e8907a 2a09 0a07 0a016d 1202 0802", &framework.ProgramDesc{
			Version: &framework.Version{Version: proto.Int64(2001000)},
			OpVersionMap: &framework.OpVersionMap{
				Pair: []*framework.OpVersionMap_OpVersionPair{{
					OpName:    proto.String("m"),
					OpVersion: &framework.OpVersion{Version: proto.Int32(2)},
				}},
			},
		}},
	}
	for _, test := range tests {
		t.Run(test.generation, func(t *testing.T) {
			got := decodeProgram(t, unhex(t, test.wire))
			requireNoUnknownFields(t, got)
			if !proto.Equal(got, test.want) {
				t.Errorf("decoded to %v, want %v", got, test.want)
			}
		})
	}
}

func TestStartupProgramRidesWhereFluidSkipsIt(t *testing.T) {
	program := &framework.ProgramDesc{StartupProgram: []byte{0x0a, 0x00}}
	// Tag 1001 << 3 | 2 (length-delimited), then the length and the bytes.
	if got, want := hex.EncodeToString(encode(t, program)), "ca3e020a00"; got != want {
		t.Errorf("encoded to %s, want %s", got, want)
	}
}

func TestAMissingFieldIsNoErrorOfTheDecoder(t *testing.T) {
	// One block that holds one op without a type and one variable without a name.
	program := decodeProgram(t, unhex(t, "0a04 1a00 2200"))
	block := program.GetBlocks()[0]
	if block.Idx != nil || block.GetOps()[0].Type != nil || block.GetVars()[0].Name != nil {
		t.Errorf("absent fields seem to be set in %v", block)
	}
	if got := block.GetForwardBlockIdx(); got != -1 {
		t.Errorf("an absent forward_block_idx reads as %d, want -1", got)
	}
}

// unhex decodes hexadecimal digits; spaces are for the reader of the test.
func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	decoded, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}
