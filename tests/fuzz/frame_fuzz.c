/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frame_fuzz.c - frames of the bootstrap over TCP, received by rank 0 or by a member in pieces of any size.
 *
 * Input: who receives; then for each frame how it is sealed and cut, the fields of its head, and its body.
 */
#include "fuzz.h"
#include "bootstrap/bootstrap_kind.h"
#include "meet/tree_protocol.h"

const char *const fuzz_name = "frame";
const long fuzz_runs = 100000;

enum { LENGTH = 40, BODY_MOST = 1200 };
enum { WRONG_BODY = 1, WRONG_HEAD = 2, OTHER_LENGTH = 4, OTHER_FIELDS = 8, NO_MEMORY = 16 };

static const uint8_t session[HANDSHAKE_KEY_SIZE] = "the session key", body_key[16] = "key of all";

/* One end that sends and one that receives. */
struct pair {
	struct tree_stream from, to;
	uint8_t *piece;   /* LENGTH bytes */
	uint8_t *message; /* BOOTSTRAP_TEXT_SIZE bytes */
	uint32_t round;
};

/* A head that suits the receiver, with the faults that the input asks for. */
static struct tree_frame make_head(struct fuzz_input *in, const struct pair *pair, unsigned how)
{
	struct tree_frame head = {.type = pair->to.is_parent ? TREE_PIECE : TREE_TABLE,
				  .round = pair->round,
				  .len = LENGTH};

	if (how & OTHER_FIELDS) {
		head.type = fuzz_up_to(in, 9);
		head.round += fuzz_up_to(in, 2);
		fuzz_take(in, &head.timeout_ms, 8); /* and the code */
	}
	if (how & OTHER_LENGTH)
		fuzz_take(in, &head.len, 1 + fuzz_up_to(in, 7));
	return head;
}

/* Passes bytes on as a socket would; returns the event after the last one. */
static enum tree_event receive(struct pair *pair, struct fuzz_input *cuts, const uint8_t *bytes,
			       size_t n, int no_memory)
{
	struct tree_stream *to = &pair->to;
	enum tree_event event = TREE_MORE;
	uint8_t scrap[16];

	while (n > 0 && event == TREE_MORE) {
		size_t room, take;
		void *at = tree_stream_space(to, scrap, sizeof(scrap), &room);

		fuzz_promise(room > 0, "an incomplete frame has space for bytes");
		take = 1 + fuzz_byte(cuts);
		take = take < room ? take : room;
		take = take < n ? take : n;
		memcpy(at, bytes, take);
		bytes += take;
		n -= take;
		event = tree_stream_take(to, take);
		if (event != TREE_HEAD)
			continue;
		if (to->head.type == TREE_FAILURE ? tree_check_message(&to->head, to->is_parent)
		    : to->is_parent
			    ? tree_check_piece(&to->head, 1, 0, pair->round, LENGTH, no_memory)
			    : tree_check_table(&to->head, 0, pair->round, LENGTH))
			return TREE_HEAD;
		to->body = to->head.type == TREE_FAILED || to->head.type == TREE_FAILURE
				   ? pair->message
				   : pair->piece;
		if (no_memory)
			to->body = NULL;
		event = tree_stream_take(to, 0);
	}
	return event;
}

/* Returns 0 if the frame ends the connection. */
static int exchange(struct fuzz_input *in, struct pair *pair)
{
	unsigned how = fuzz_byte(in), number = how & 32 ? fuzz_byte(in) : 0;
	struct tree_frame head = make_head(in, pair, how);
	uint8_t *bytes = fuzz_memory(sizeof(head) + BODY_MOST);
	size_t len = head.len < BODY_MOST ? (size_t)head.len : BODY_MOST;
	enum tree_event event;

	fuzz_take(in, bytes + sizeof(head), len);
	siphash128(body_key, bytes + sizeof(head), len, head.body_mac);
	head.body_mac[3] ^= (how & WRONG_BODY) != 0;
	pair->from.sent += number;
	tree_seal(&pair->from, &head);
	pair->from.sent -= number;
	if (how & WRONG_HEAD)
		((uint8_t *)&head)[fuzz_byte(in) % sizeof(head)] ^=
			(uint8_t)(1 + fuzz_up_to(in, 254));
	memcpy(bytes, &head, sizeof(head));
	event = receive(pair, in, bytes, sizeof(head) + len, how & NO_MEMORY);
	free(bytes);
	if (how & WRONG_HEAD || number)
		fuzz_promise(event == TREE_FORGED, "a head with a wrong mac is forged");
	if (how & WRONG_BODY && !(how & NO_MEMORY))
		fuzz_promise(event != TREE_WHOLE, "a body with a wrong mac is forged");
	pair->from.sent++;
	pair->round++;
	tree_stream_next(&pair->to);
	return event == TREE_WHOLE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	int to_root = (int)fuzz_up_to(&in, 1);
	struct pair pair = {.round = 1};

	pair.piece = fuzz_memory(LENGTH);
	pair.message = fuzz_memory(BOOTSTRAP_TEXT_SIZE);
	tree_stream_init(&pair.from, !to_root, session, body_key);
	tree_stream_init(&pair.to, to_root, session, body_key);
	while (in.left > 0 && exchange(&in, &pair))
		;
	free(pair.piece);
	free(pair.message);
	return 0;
}
