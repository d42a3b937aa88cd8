// The experiments by the names that chapters use.

import attacks from './attacks.js';
import accountants from './accountants.js';
import amplification from './amplification.js';
import clipping from './clipping.js';
import discard from './discard.js';
import descent from './descent.js';
import ledger from './ledger.js';
import mechanisms from './mechanisms.js';
import members from './members.js';
import responses from './responses.js';
import settings from './settings.js';
import spending from './spending.js';
import training from './training.js';
import users from './users.js';

export const experiments = {
  discard, members, responses, mechanisms, descent, clipping, training, amplification, accountants, spending, users, attacks, settings, ledger,
};
