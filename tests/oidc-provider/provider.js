// An OpenID provider for tests, on the address of its issuer: oidc-provider with one client and a few accounts, whose login
// page takes any password. Settings are a JSON document in the first argument:
//   issuer, certificate and key (PEM files), client_id, client_secret (optional), redirect_uri, accounts {name: claims}.
// POST /sign/good and /sign/forged answer with a token of any claims, signed with the provider's key or with another one.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';

import * as jose from 'jose';
import { Provider } from 'oidc-provider';

const settings = JSON.parse(process.argv[2]);
const { port, hostname } = new URL(settings.issuer);
const BODY_MAX = 65536;

async function newKey() {
  const { privateKey } = await jose.generateKeyPair('RS256', { extractable: true });
  return { ...(await jose.exportJWK(privateKey)), kid: 'one', use: 'sig', alg: 'RS256' };
}

const [own, foreign] = [await newKey(), await newKey()];
const client = {
  client_id: settings.client_id,
  application_type: 'web',
  grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
  response_types: ['code'],
  redirect_uris: [settings.redirect_uri],
  ...(settings.client_secret
    ? { client_secret: settings.client_secret, token_endpoint_auth_method: 'client_secret_basic' }
    : { token_endpoint_auth_method: 'none' }),
};

const provider = new Provider(settings.issuer, {
  clients: [client],
  jwks: { keys: [own] },
  cookies: { keys: ['not a secret: this is a test'] },
  // Claims of the scopes are in the ID token, as with most providers.
  conformIdTokenClaims: false,
  claims: { openid: ['sub'], profile: ['preferred_username', 'groups', 'rack', 'stacks'], email: ['email'] },
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
  pkce: { required: () => true },
  ttl: { Session: 600, Grant: 600, Interaction: 600, AccessToken: 600, IdToken: 600, DeviceCode: 600 },
  findAccount(_, id) {
    const claims = settings.accounts[id];
    return claims && { accountId: id, claims: () => ({ sub: id, ...claims }) };
  },
});

async function body(request) {
  let text = '';
  for await (const piece of request) {
    text += piece;
    if (text.length > BODY_MAX) throw new Error('the body is too large');
  }
  return text;
}

async function sign(request, response) {
  const key = await jose.importJWK(request.url === '/sign/good' ? own : foreign, 'RS256');
  const token = new jose.SignJWT(JSON.parse(await body(request))).setProtectedHeader({ alg: 'RS256', kid: 'one' });
  response.end(await token.sign(key));
}

const serve = provider.callback();
const tls = { cert: readFileSync(settings.certificate), key: readFileSync(settings.key) };
createServer(tls, (request, response) => {
  if (request.url.startsWith('/sign/')) {
    sign(request, response).catch((error) => response.writeHead(400).end(error.message));
  } else {
    serve(request, response);
  }
}).listen(Number(port), hostname.replace(/^\[|\]$/g, ''), () => console.log('ready'));
