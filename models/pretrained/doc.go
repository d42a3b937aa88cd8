// Package pretrained builds networks from public checkpoints for texts and pictures, and writes them back. A
// checkpoint is a folder with config.json and safetensors, as Hugging Face's transformers writes it, or a file of
// llama.cpp. The parameters of a network have the names of the checkpoint's tensors in transformers.
//
//	config.go, decoder_config.go  the configuration: which architectures and features are supported
//	checkpoint.go                 the tensors
//	gguf.go                       both, from a file of llama.cpp
//	network.go                    encoders: BERT, RoBERTa, DistilBERT
//	pooling.go                    linear heads of encoders, in the folders of sentence-transformers
//	decoder.go                    decoders: GPT-2, and those with Llama's layers
//	picture.go, picture_config.go networks for pictures: ViT, DeiT
//	pretrained.go                 which parameters are trained; low-rank adapters
//	masked.go                     heads of encoders for masked ids
//	generate.go                   logits of the next id, one id after the other
//	export.go                     the way back
//
// A network reads ids [batch, time], where −1 is padding at the end. An encoder normalizes behind each half of a block,
// a decoder in front of it:
//
//	encoder  x ← norm(x + attention(x))     x ← norm(x + mlp(x))     output: head(x of the first step), or of their mean
//	decoder  x ← x + attention(norm(x))     x ← x + mlp(norm(x))     output: head(x of the last step), or logits of each step
//
// A network for pictures cuts them into patches, which are the steps, behind a token whose output the head reads. Its blocks
// normalize in front, as those of a decoder, and each step sees all others.
//
// Since Gemma 2, a decoder normalizes behind each half of a block as well, and in some blocks a step sees a window only.
//
// In a decoder no step sees the steps after it. Llama's layers differ from GPT-2's in three points: norms do not center,
// queries and keys are rotated by angles that grow with the step, in place of learned positions, and
// mlp(x) = (act(x·G) ⊙ x·U)·D. Several heads of queries can share a head of keys and values, which is then copied for each
// of them, so that one operation of attention serves all networks.
//
// All parts are compositions of operations with per-example gradients. So a checkpoint that is trained as a whole needs no
// code of its own, and frozen parameters need no gradients at all. An adapter of a dense layer x·W adds
// α/r·x·A·B with A [in, r] and B [r, out], which starts at zero (Hu et al. 2022).
//
// The weights of dense layers are [in, out]. Files have their transposes, except for GPT-2, whose blocks have [in, out].
// A tensor that a network does not have is an error, and so is a feature of a configuration that is not supported: no part
// is replaced by a similar one.
//
// The networks have no dropout: the noise of private training takes its place.
package pretrained
