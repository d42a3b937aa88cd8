package random

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// The block function against RFC 8439, section 2.3.2 and appendix A.1.
func TestChaCha_RFC8439Vectors(t *testing.T) {
	ones := func(at int, v byte) (k [32]byte) { k[at] = v; return k }
	var counting [32]byte
	for i := range counting {
		counting[i] = byte(i)
	}
	for _, c := range []struct {
		name    string
		key     [32]byte
		counter uint32
		nonce   string
		want    string
	}{
		{"2.3.2", counting, 1, "000000090000004a00000000",
			"10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"},
		{"A.1 #1", [32]byte{}, 0, "000000000000000000000000",
			"76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"},
		{"A.1 #2", [32]byte{}, 1, "000000000000000000000000",
			"9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"},
		{"A.1 #3", ones(31, 1), 1, "000000000000000000000000",
			"3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"},
		{"A.1 #4", ones(1, 0xff), 2, "000000000000000000000000",
			"72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"},
		{"A.1 #5", [32]byte{}, 0, "000000000000000000000002",
			"c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c78a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"},
	} {
		n, _ := hex.DecodeString(c.nonce)
		in := newState(keyFromBytes(c.key), [3]uint32{
			binary.LittleEndian.Uint32(n), binary.LittleEndian.Uint32(n[4:]), binary.LittleEndian.Uint32(n[8:])})
		in[counterWord] = c.counter
		var got []byte
		for _, w := range chachaBlock(&in) {
			got = binary.LittleEndian.AppendUint32(got, w)
		}
		if hex.EncodeToString(got) != c.want {
			t.Errorf("%s:\n got %x\nwant %s", c.name, got, c.want)
		}
	}
}
